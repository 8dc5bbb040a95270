"""Search by name: exact, in other spellings, by prefix, approximate, ambiguous, and without any match."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwalk.data import names
from hopwalk.data.names import NameIndex, folded
from hopwalk.data.typos import codes_of, find_similar, most_errors
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import UnknownNameError
from tests.support.villages import VILLAGE

BODY = NameIndex(Vocabulary.of(["Blood Cell", "blood-cell ", "Body", "body part"]))
VILLAGERS, RELATIONS = NameIndex(VILLAGE.entities), NameIndex(VILLAGE.relations, "relation")


def names_of(index: NameIndex, vocabulary: Vocabulary, text: str, limit: int = 10) -> list[str]:
    return [vocabulary.name(id_) for id_ in index.search(text, limit)]


def test_case_blanks_and_underscores_do_not_matter():
    people = Vocabulary.of(["Ann_Lee", "bob", "Straße", "Zoe\u0301"])
    index = NameIndex(people)
    for text, label in [("ann lee", "Ann_Lee"), ("BOB", "bob"), ("STRASSE", "Straße"), ("zo\u00e9", "Zoe\u0301")]:
        assert people[index.id(text)] == label


def test_exact_names_come_first_and_ambiguous_ones_are_refused():
    assert BODY.id("Blood Cell") == 0
    with pytest.raises(
        UnknownNameError, match=r"'bloodcell' matches several entities\. Use one of the labels: Blood Cell, blood-cell \."
    ):
        BODY.id("bloodcell")


def test_readable_names_count_after_labels():
    keys = Vocabulary.of(["Q1", "Q2", "Q3", "Q4"], names={"Q1": "Paris", "Q2": "paris", "Q3": "Ulm", "Q4": "Q1"})
    index = NameIndex(keys)
    assert [index.id(text) for text in ("Q1", "Paris", "ULM", "q2")] == [0, 0, 2, 1]
    with pytest.raises(UnknownNameError, match=r"several entities\. Use one of the labels: Q1 \(Paris\), Q2 \(paris\)\."):
        index.id("PARIS")
    assert index.search("par") == [0, 1] and index.search("q") == [0, 1, 2, 3]


def test_near_misses_are_suggested():
    with pytest.raises(UnknownNameError, match=r"there is no entity 'chil 0'\. Did you mean 'child 0'"):
        VILLAGERS.id("chil 0")
    with pytest.raises(UnknownNameError, match=r"there is no relation 'father'\. Relations are: brother, knows, mother, uncle\."):
        RELATIONS.id("father")  # another word, not a mistyped 'mother'
    with pytest.raises(UnknownNameError, match=r"Relations are: brother, knows, mother, uncle\."):
        RELATIONS.id("zzz")
    with pytest.raises(UnknownNameError) as error:
        VILLAGERS.id("child")
    assert 1 <= error.value.remedy.count("'child ") <= 5


@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_an_empty_name(text: str):
    with pytest.raises(UnknownNameError, match=r"the name of the entity is empty\. Give a name such as 'man 0' or 'man 1'\."):
        VILLAGERS.id(text)


@pytest.mark.parametrize("name", [3, None, 2.5, b"man 0", ["man 0"], ("man 0", "mother")], ids=str)
def test_a_name_that_is_not_text(name: Any):
    """Ids, None and lists are refused with our own error, and with an example of a name."""
    for index, kind, examples in ((VILLAGERS, "entity", "'man 0' or 'man 1'"), (RELATIONS, "relation", "'knows' or 'uncle'")):
        with pytest.raises(UnknownNameError) as error:
            index.id(name)
        assert str(error.value) == (
            f"{name!r} is not valid as the name of the {kind}: names are text. Give a name such as {examples}."
        )


def test_names_without_any_match_get_examples():
    many = Vocabulary.of(f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst")
    with pytest.raises(UnknownNameError, match=r"there is no entity 'ü+…'\. Examples of names: '..', '..' or '..'\."):
        NameIndex(many).id("ü" * 10_000)
    with pytest.raises(UnknownNameError, match=r"there is no relation '/'\. Examples of names: '..', '..' or '..'\."):
        NameIndex(many, "relation").id("/")


def test_near_misses_among_many():
    numbers = random.Random(0)
    words = Vocabulary.of("".join(numbers.choices("aeioulmnrst", k=12)) for _ in range(5000))
    index = NameIndex(words)
    for id_ in range(0, 5000, 250):
        assert index.near(words[id_][:5] + "z" + words[id_][6:])[0] == id_


DRUGS = Vocabulary.of(
    ["Aspirin", "Aspirin 81 mg", "Olaparib", "Amoxicillin", "Naproxen", "Ménière disease", "Ørsted", "Aspartame"]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Asprin", ["Aspirin", "Aspirin 81 mg"]),
        ("Apsirin", ["Aspirin", "Aspirin 81 mg"]),
        ("aspirinn", ["Aspirin", "Aspirin 81 mg"]),
        ("Olabarip", ["Olaparib"]),
        ("amoxycilin", ["Amoxicillin"]),
        ("meniere disaese", ["Ménière disease"]),
        ("desease", ["Ménière disease"]),  # a word of the name
        ("Ibuprofen", []),
        ("xyzzyq", []),
        ("axb", []),  # too short for an error
    ],
)
def test_typing_errors_are_forgiven_and_nonsense_is_not_offered(text: str, expected: list[str]):
    index = NameIndex(DRUGS)
    assert [DRUGS[id_] for id_ in index.near(text)] == expected
    assert names_of(index, DRUGS, text) == expected


def test_accents_do_not_matter():
    index = NameIndex(DRUGS)
    assert names_of(index, DRUGS, "meniere") == names_of(index, DRUGS, "MÉNIÈRE") == ["Ménière disease"]
    assert DRUGS[index.id("orsted")] == "Ørsted" and DRUGS[index.id("me\u0301niere disease")] == "Ménière disease"


def test_typing_errors_while_a_name_is_being_typed():
    assert names_of(NameIndex(DRUGS), DRUGS, "amoxy") == ["Amoxicillin"]
    assert NameIndex(DRUGS).near("amoxy") == []  # as a whole name it is none


def alignment(one: str, other: str) -> int:
    """The optimal string alignment distance, as in the textbook."""
    table = [[max(i, j) if not (i and j) else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            changed = table[i - 1][j - 1] + (one[i - 1] != other[j - 1])
            table[i][j] = min(changed, table[i - 1][j] + 1, table[i][j - 1] + 1)
            if i > 1 and j > 1 and (one[i - 1], one[i - 2]) == (other[j - 2], other[j - 1]):
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


@given(
    st.lists(st.text("abc ", min_size=1, max_size=14).filter(str.strip), min_size=1, max_size=8),
    st.text("abc", min_size=1, max_size=13),
)
def test_errors_are_counted_as_in_the_textbook(names: list[str], text: str):
    lines = [" ".join(name.split()) for name in names]
    joined, most = "\n".join(lines) + "\n", most_errors(len(text))
    ends = np.cumsum([len(line) + 1 for line in lines]) - 1
    starts = ends - [len(line) for line in lines]
    found = find_similar(codes_of(text), codes_of(joined), starts, ends, most)
    got = {row: (errors, whole) for row, errors, whole in zip(*(part.tolist() for part in vars(found).values()), strict=True)}
    for row, line in enumerate(lines):
        distances = [alignment(text, line[:end]) for end in range(len(line) + 1)]
        words = [distance for end, distance in enumerate(distances) if line[end : end + 1] in ("", " ")]
        expected = min(distances), min([*words, most + 1])
        assert (row in got) == (expected[0] <= most)
        assert row not in got or got[row] == (expected[0], min(expected[1], most + 1))


def test_search_finds_prefixes_first():
    words = Vocabulary.of(["cell", "cell_function", "blood_cell", "Cellist", "excellent", "organ", "/body/cell"])
    index = NameIndex(words)
    expected = ["cell", "Cellist", "cell_function", "blood_cell", "/body/cell", "excellent"]
    assert names_of(index, words, "CELL") == expected
    assert names_of(index, words, "cell", limit=3) == expected[:3]
    assert names_of(index, words, "cell fun") == names_of(index, words, "cellfun") == ["cell_function"]
    assert names_of(index, words, "zzz") == [] and names_of(index, words, "cell", limit=0) == []
    assert (
        names_of(index, words, "")
        == names_of(index, words, "_ ")
        == ["cell", "organ", "Cellist", "blood_cell", "excellent", "/body/cell", "cell_function"]
    )


@given(st.lists(st.text(max_size=8), min_size=1, max_size=20), st.text(max_size=4))
def test_search_finds_every_name_that_contains_the_text(labels: list[str], text: str):
    words = Vocabulary.of([label.encode(errors="ignore").decode() for label in labels])
    found = NameIndex(words).search(text, limit=100)
    holding = {id_ for id_ in range(len(words)) if folded(text) in folded(words[id_])}
    assert len(found) == len({*found}) and holding <= {*found}
    starting = [id_ for id_ in range(len(words)) if folded(words[id_]).startswith(folded(text))]
    assert found[: len(starting)] == sorted(starting, key=lambda id_: (len(folded(words[id_])), id_))


@given(st.lists(st.text(max_size=8), min_size=1, max_size=20))
def test_every_label_finds_itself(labels: list[str]):
    words = Vocabulary.of([label.encode(errors="ignore").decode() for label in labels])
    index = NameIndex(words)
    assert [index.id(label) for label in words] == list(range(len(words)))


def test_endless_names_are_not_looked_for_in_other_spellings(monkeypatch: pytest.MonkeyPatch):
    """Each spelling of a name of 200 MB took seconds."""
    spelt = list[int]()
    plain = names._plain

    def counted(text: str) -> str:
        spelt.append(len(text))
        return plain(text)

    monkeypatch.setattr(names, "_plain", counted)
    people = NameIndex(Vocabulary.of(["Ann_Lee", "b" * 300_000]))
    assert people.id("b" * 300_000) == 1
    spelt.clear()
    with pytest.raises(UnknownNameError, match="there is no entity 'aaa"):
        people.id("a" * 2_000_000)
    assert spelt and max(spelt) <= 400_000
