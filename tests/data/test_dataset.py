"""From labelled facts to ids: nothing counted twice, nothing held out left in training, the same data always the same ids."""

import random
from pathlib import Path

import numpy as np
import pytest

import hopwalk
from hopwalk.config.settings import SplitSettings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, SavedFileError, SettingsError
from tests.support.helpers import FAMILY, dataset_of, facts_of, finding, is_mapped


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


def test_ids_do_not_depend_on_the_hash_that_finds_them(monkeypatch: pytest.MonkeyPatch):
    expected = dataset_of(FAMILY).fingerprint
    monkeypatch.setattr("hopwalk.data.dataset._hashes_collide", lambda labels, seed: seed < 3)  # as if the first three did
    assert dataset_of(FAMILY).fingerprint == expected


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


def test_findings_are_saved(tmp_path: Path):
    dataset = dataset_of([*FAMILY, FAMILY[0]])
    dataset.save(tmp_path / "d")
    assert Dataset.load(tmp_path / "d").findings == dataset.findings != ()


def test_own_facts_and_held_back():
    dataset = dataset_of(FAMILY[:1], valid=FAMILY[1:2], test=FAMILY[2:3], facts=FAMILY[:5], held_back=FAMILY[5:])
    assert facts_of(dataset) == {FAMILY[0], *FAMILY[3:5]}
    assert facts_of(dataset.with_valid_as_facts()) == {*FAMILY[:2], *FAMILY[3:5]}
    assert len(dataset.entities) == 5  # eve stands only in what is held back
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


def test_prepared_folder_opens(tmp_path: Path):
    dataset = dataset_of(FAMILY)
    graph = hopwalk.prepare(dataset, tmp_path / "p")
    opened, opened_graph = hopwalk.open_prepared(tmp_path / "p")
    assert opened.fingerprint == dataset.fingerprint == hopwalk.load_dataset(tmp_path / "p").fingerprint
    assert opened_graph.tails.tolist() == graph.tails.tolist()


def test_prepared_folder_of_two_data_sets(tmp_path: Path):
    hopwalk.prepare(dataset_of(FAMILY), tmp_path / "p")
    turned = [(tail, relation, head) for head, relation, tail in FAMILY]  # as many entities, relations and facts
    dataset_of(turned).save(tmp_path / "p" / "dataset.safetensors")
    with pytest.raises(SavedFileError, match="do not belong together"):
        hopwalk.open_prepared(tmp_path / "p")


def test_text_and_prepared_files_are_not_mixed_up(tmp_path: Path):
    hopwalk.prepare(dataset_of(FAMILY), tmp_path / "p")
    (tmp_path / "p" / "train.tsv").write_text("a\tr\tb\n")
    with pytest.raises(DataError, match="a prepared data set and text files"):
        hopwalk.load_dataset(tmp_path / "p")
    with pytest.raises(DataError, match=r"the folder holds train\.tsv"):
        hopwalk.prepare(dataset_of(FAMILY), tmp_path / "p")


def test_reading_options_for_what_is_not_read(tmp_path: Path):
    hopwalk.prepare(dataset_of(FAMILY), tmp_path / "p")
    for data in ("umls", tmp_path / "p"):
        with pytest.raises(SettingsError, match=r"read\.columns has no meaning"):
            hopwalk.load_dataset(data, hopwalk.load_settings(overrides=["read.columns=1,3,2"]))


@pytest.mark.parametrize("content", [b"", b"junk", b"\xff" * 100])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SavedFileError, match="not a whole hopwalk file"):
        Dataset.load(tmp_path / "x")


def test_files_of_another_kind_are_refused(tmp_path: Path):
    hopwalk.graph_of(dataset_of(FAMILY)).save(tmp_path / "g")
    with pytest.raises(SavedFileError, match="does not hold a hopwalk dataset"):
        Dataset.load(tmp_path / "g")
    with pytest.raises(SavedFileError, match="cannot be opened"):
        Dataset.load(tmp_path / "nothing")


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "d"
    dataset_of(FAMILY).save(path)
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("safetensors.numpy.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        dataset_of(FAMILY[:2]).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


class TestSplit:
    @pytest.mark.parametrize("seed", range(5))
    def test_all_that_is_held_out_is_seen_in_training(self, seed: int):
        umls = hopwalk.load_dataset("umls")
        whole = dataset_of(umls.labels_of(umls.all_facts()))
        split = hopwalk.split_dataset(whole, SplitSettings(valid=0.2, test=0.3, seed=seed))
        assert [len(split.valid), len(split.test)] == [1306, 1959]
        assert facts_of(split, "train") | facts_of(split, "valid") | facts_of(split, "test") == facts_of(whole)
        assert len(split.train) + len(split.valid) + len(split.test) == len(whole.facts)
        assert {*np.concatenate([split.train.heads, split.train.tails]).tolist()} == {*range(135)}
        assert {*split.train.relations.tolist()} == {*range(46)}

    def test_seed_decides(self):
        umls = dataset_of(hopwalk.load_dataset("umls").labels_of(hopwalk.load_dataset("umls").train))
        first, same, other = (hopwalk.split_dataset(umls, SplitSettings(seed=seed)) for seed in (1, 1, 2))
        assert first.fingerprint == same.fingerprint != other.fingerprint

    def test_too_few_to_hold_out(self):
        split = hopwalk.split_dataset(dataset_of(FAMILY), SplitSettings(valid=0.4, test=0.4))
        assert finding(split, "few-to-hold-out").count == 2 == len(split.valid) + len(split.test)
        assert len(split.entities) == len({*np.concatenate([split.train.heads, split.train.tails]).tolist()})

    def test_small_data_still_holds_out_something(self):
        split = hopwalk.split_dataset(dataset_of(FAMILY), SplitSettings(valid=0.1, test=0.1))
        assert (len(split.valid), len(split.test)) == (1, 1)
        alone = hopwalk.split_dataset(dataset_of(FAMILY), SplitSettings(valid=0, test=0.1))
        assert (len(alone.valid), len(alone.test)) == (0, 1)

    def test_what_can_be_held_out_is(self):
        triangle = dataset_of([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")])
        split = hopwalk.split_dataset(triangle, SplitSettings(valid=0.3, test=0.3))
        assert (len(split.valid), len(split.test)) == (0, 1)

    def test_refusals(self):
        with pytest.raises(DataError, match="leaves none to train on"):
            hopwalk.split_dataset(dataset_of(FAMILY), SplitSettings(valid=0.5, test=0.5))
        with pytest.raises(DataError, match="divided already"):
            hopwalk.split_dataset(hopwalk.load_dataset("umls"))
