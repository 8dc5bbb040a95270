"""Data sets of ids: no duplicates, no held-out facts in training, and the same ids for the same data."""

import errno
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hopwalk.data.dataset import Dataset
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import SavedFileError, StorageError
from hopwalk.utils.arrays import save_arrays
from tests.support.helpers import FAMILY, dataset_of, facts_of, finding, is_mapped

PARTS = ("train", "valid", "test", "held_back")
ARRAYS: dict[str, np.ndarray] = {
    **Vocabulary.of(["a", "b"]).to_arrays("entities"),
    **Vocabulary.of(["r"]).to_arrays("relations"),
    **{f"{part}.{column}": np.zeros(1, np.int32) for part in PARTS for column in ("heads", "relations", "tails")},
}


def test_ids_by_hand():
    family = dataset_of(FAMILY)
    assert list(family.entities) == ["ann", "bob", "cat", "dan", "eve"]
    assert list(family.relations) == ["brother_of", "knows", "mother_of", "uncle_of"]
    assert family.facts.array().tolist() == [[0, 2, 1], [0, 2, 2], [1, 0, 2], [1, 3, 3], [2, 2, 3], [4, 1, 0]]
    assert family.facts is family.train


def test_order_of_lines_does_not_matter():
    shuffled = random.Random(0).sample(FAMILY, len(FAMILY))
    assert dataset_of(shuffled).fingerprint == dataset_of(FAMILY).fingerprint
    assert dataset_of(shuffled).facts.array().tolist() == dataset_of(FAMILY).facts.array().tolist()


def test_ids_do_not_depend_on_the_hash_of_labels(monkeypatch: pytest.MonkeyPatch):
    """Labels are looked up by hash. If the first hashes of two labels collide, another seed of the hash is used."""
    expected, hash_of = dataset_of(FAMILY).fingerprint, pl.Series.hash
    seeds = []

    def colliding(self: pl.Series, seed: int = 0) -> pl.Series:
        seeds.append(seed)
        return hash_of(self, seed) if seed >= 3 else pl.Series(self.name, [7] * len(self), dtype=pl.UInt64)

    monkeypatch.setattr(pl.Series, "hash", colliding)
    assert dataset_of(FAMILY).fingerprint == expected
    assert {*seeds} == {0, 1, 2, 3}


def test_fingerprint_tells_splits_and_labels_apart():
    prints = [
        dataset_of(FAMILY).fingerprint,
        dataset_of(FAMILY[1:]).fingerprint,
        dataset_of(FAMILY[1:], valid=FAMILY[:1]).fingerprint,
        dataset_of(FAMILY[1:], test=FAMILY[:1]).fingerprint,
        dataset_of([("a" + head, relation, tail) for head, relation, tail in FAMILY]).fingerprint,
    ]
    assert len(set(prints)) == len(prints)


def test_duplicates_are_counted_and_kept_once():
    dataset = dataset_of([*FAMILY, FAMILY[0], FAMILY[0]])
    assert facts_of(dataset) == {*FAMILY}
    assert finding(dataset, "duplicate-facts").count == 2


def test_held_out_facts_leave_training():
    dataset = dataset_of(FAMILY, valid=[FAMILY[0], FAMILY[1]], test=[FAMILY[1]])
    assert facts_of(dataset, "train") == {*FAMILY[2:]}
    assert facts_of(dataset, "valid") == {FAMILY[0]}
    assert facts_of(dataset, "test") == {FAMILY[1]}
    overlaps = [found.message for found in dataset.findings if found.code == "split-overlap"]
    assert len(overlaps) == 3


def test_held_out_facts_leave_training_also_the_other_way_round():
    # r_inv is not folded: most of its facts do not repeat facts of r. Still it must not give the held-out fact away.
    train = [
        ("a", "r", "b"),
        *((f"x{number}", "r_inv", f"y{number}") for number in range(5)),
        ("f", "r_inv", "e"),
        ("e", "r", "a"),
    ]
    dataset = dataset_of(train, test=[("e", "r", "f")], valid=[("a", "r_inv", "x0"), ("a", "r_inv", "e")])
    assert facts_of(dataset) == {*train} - {("f", "r_inv", "e"), ("e", "r", "a")}
    assert sum(found.count for found in dataset.findings if found.code == "split-overlap") == 2


def test_facts_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        dataset_of(FAMILY).facts.heads[0] = 3


@pytest.mark.parametrize("finding", [{}, "text", {"level": "varning", "code": "x", "message": "x", "examples": []}], ids=str)
def test_damaged_findings_are_refused(tmp_path: Path, finding: object):
    save_arrays(tmp_path / "d", ARRAYS, {"kind": "dataset", "name": "small", "findings": [finding]})
    with pytest.raises(SavedFileError, match="its findings cannot be read"):
        Dataset.load(tmp_path / "d")


def test_findings_are_saved(tmp_path: Path):
    dataset = dataset_of([*FAMILY, FAMILY[0]])
    dataset.save(tmp_path / "d")
    assert Dataset.load(tmp_path / "d").findings == dataset.findings != ()


def test_a_graph_of_its_own_and_held_back_facts():
    dataset = dataset_of(FAMILY[:1], valid=FAMILY[1:2], test=FAMILY[2:3], facts=FAMILY[:5], held_back=FAMILY[5:])
    assert facts_of(dataset) == {FAMILY[0], *FAMILY[3:5]}
    final = dataset.with_valid_in_training()
    assert facts_of(final) == {*FAMILY[:2], *FAMILY[3:5]}
    assert (facts_of(final, "train"), len(final.valid)) == ({*FAMILY[:2]}, 0)
    assert facts_of(final, "test") == facts_of(dataset, "test")
    assert len(dataset.entities) == 5  # eve is only in the held-back facts
    assert len(dataset.all_facts()) == 6


@pytest.mark.parametrize("own_facts", [False, True])
def test_save_and_load(tmp_path: Path, own_facts: bool):
    more = {"facts": FAMILY} if own_facts else {}
    dataset = dataset_of(FAMILY, valid=[("ann", "knows", "dan")], test=[("ann", "knows", "bob")], **more)
    dataset.save(tmp_path / "d.safetensors")
    again = Dataset.load(tmp_path / "d.safetensors")
    assert again.fingerprint == dataset.fingerprint
    assert again.has_own_facts == own_facts
    assert is_mapped(again.facts.heads)
    assert not again.facts.heads.flags.writeable


@pytest.mark.parametrize("content", [b"", b"junk", b"\xff" * 100])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SavedFileError, match="not a whole hopwalk file"):
        Dataset.load(tmp_path / "x")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("train.tails", np.array([2], np.int32)),
        ("train.tails", np.array([-1], np.int32)),
        ("test.relations", np.array([1], np.int32)),
        ("valid.heads", np.array([0, 1], np.int32)),
        ("train.heads", np.array([[0]], np.int32)),
        ("train.heads", np.array([0], np.int64)),
        ("entities.labels.offsets", np.array([0, 1, 3], np.int64)),
        ("entities.labels.offsets", np.array([0, 2, 1], np.int64)),
        ("entities.labels.offsets", np.array([], np.int64)),
        ("entities.labels.utf8", np.array([0xC3, 0xA9], np.uint8)),
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, name: str, array: np.ndarray):
    """The file is whole and its checksum is right, but its content is not a data set."""
    metadata = {"kind": "dataset", "name": "small", "findings": []}
    save_arrays(tmp_path / "good", ARRAYS, metadata)
    assert Dataset.load(tmp_path / "good").facts.array().tolist() == [[0, 0, 0]]
    save_arrays(tmp_path / "bad", ARRAYS | {name: array}, metadata)
    with pytest.raises(SavedFileError, match="the file is damaged"):
        Dataset.load(tmp_path / "bad")


def test_files_of_another_kind_are_refused(tmp_path: Path):
    save_arrays(tmp_path / "weights", {"heads": np.zeros(3, np.int32)}, {"kind": "weights"})
    with pytest.raises(SavedFileError, match="does not hold a hopwalk dataset"):
        Dataset.load(tmp_path / "weights")
    with pytest.raises(SavedFileError, match="cannot be opened"):
        Dataset.load(tmp_path / "nothing")


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "d"
    dataset_of(FAMILY).save(path)
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StorageError, match="disk full"):
        dataset_of(FAMILY[:2]).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# More entities


def test_facts_keep_their_labels_if_entities_are_added():
    given = dataset_of(FAMILY[:4], FAMILY[4:5], FAMILY[5:], held_back=[("ann", "knows", "eve")])
    more = given.with_entities(["aaron", "bz", "zoe", "ann"])
    assert list(more.entities) == ["aaron", "ann", "bob", "bz", "cat", "dan", "eve", "zoe"]
    for part in ("facts", "train", "valid", "test", "held_back"):
        assert more.labels_of(getattr(more, part)) == given.labels_of(getattr(given, part))
        assert not getattr(more, part).heads.flags.writeable
    assert more.facts is more.train and list(given.entities) == ["ann", "bob", "cat", "dan", "eve"]
    assert (more.degrees == [0, 2, 2, 0, 3, 1, 0, 0]).all()
    assert more.with_facts(more.facts[:0]).facts.array().tolist() == more.facts.array().tolist()  # they are still sorted


def test_a_graph_of_its_own_keeps_its_facts_if_entities_are_added():
    given = dataset_of(FAMILY[:2], facts=FAMILY[:4])
    more = given.with_entities(["aaron"])
    assert given.has_own_facts and more.has_own_facts
    assert facts_of(more) == facts_of(given) and facts_of(more, "train") == facts_of(given, "train")


def test_relations_with_loops():
    loops = dataset_of([("a", "likes", "a"), ("a", "knows", "b"), ("b", "r", "b"), ("a", "r", "b")])
    assert {loops.relations[id_] for id_ in loops.loop_relations} == {"likes", "r"}
    assert dataset_of(FAMILY).loop_relations == frozenset()
