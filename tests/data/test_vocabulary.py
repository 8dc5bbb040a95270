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
