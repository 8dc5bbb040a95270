import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import UnknownNameError
from hopwalk.utils.arrays import ArrayFile, save_arrays


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), max_size=20))
def test_ids_are_places_in_sorted_order(labels: list[str]):
    words = Vocabulary.of(labels)
    assert list(words) == sorted(set(labels))
    assert [words.id(label) for label in words] == list(range(len(words)))


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text("äb", max_size=3)))
def test_arrays_round_trip(names: dict[str, str]):
    words = Vocabulary.of([*names, "a"], names)
    with tempfile.TemporaryDirectory() as folder:
        save_arrays(Path(folder) / "file", words.to_arrays("words"), {"kind": "test"})
        again = Vocabulary.from_file(ArrayFile(Path(folder) / "file", kind="test"), "words")
    assert list(again) == list(words)
    assert [again.name(id_) for id_ in range(len(again))] == [names.get(label) or label for label in words]


LABELS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.lists(LABELS, max_size=12), st.lists(LABELS, max_size=8), st.dictionaries(LABELS, st.text("äb", max_size=3)))
def test_more_labels_are_those_of_the_union(labels: list[str], added: list[str], names: dict[str, str]):
    """The ids are those of a vocabulary of all labels; readable names are kept, and new labels have none."""
    before = Vocabulary.of(labels, names)
    after, new_ids = before.with_labels(iter(added))
    assert list(after) == list(Vocabulary.of([*labels, *added])) and list(before) == sorted(set(labels))
    assert [after[new_id] for new_id in new_ids.tolist()] == list(before)
    assert [after.name(new_id) for new_id in new_ids.tolist()] == [before.name(id_) for id_ in range(len(before))]
    assert all(after.name(after.id(label)) == label for label in added if label not in before)
    assert after.labels_hash() == Vocabulary.of([*labels, *added]).labels_hash()


def test_look_up():
    words = Vocabulary.of(["steroid", "eicosanoid"])
    assert words[1] == "steroid"
    assert "steroid" in words
    assert "ster" not in words
    for id_ in (2, -1):
        with pytest.raises(IndexError):
            words[id_]
        with pytest.raises(IndexError):
            words.name(id_)


def test_outer_blanks():
    words = Vocabulary.of(["a", " b", "c ", "d\t", "e f", "\u00a0g"])
    assert words.with_outer_blanks(9) == [" b", "c ", "d\t"]
    assert words.count_outer_blanks() == 3


def test_near_misses_in_a_large_vocabulary():
    words = Vocabulary.of(f"entity{number:06}" for number in range(20_000))
    with pytest.raises(UnknownNameError, match="Did you mean 'entity012345'"):
        words.id("entity01234x5")


def test_unknown_label_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'steroid'"):
        Vocabulary.of(["steroid", "eicosanoid"]).id("sterod")
    with pytest.raises(UnknownNameError, match="among the 0 labels"):
        Vocabulary.of([]).id("\ud800")
