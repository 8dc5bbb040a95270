"""Labels as agents see them: one line, printable, short, and each can be sent back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwalk.data.vocabulary import Vocabulary
from hopwalk.mcp.labels import read, shown
from hopwalk.mcp.limits import MOST_SHOWN

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("COX-1", "COX-1"),
        ("naïve 東京 🙂", "naïve 東京 🙂"),
        ("two\nlines\ttab", r"two\u000alines\u0009tab"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\U000e0041 tag", r"\U000e0041 tag"),
        ("zero\u200bwidth\u2066iso", r"zero\u200bwidth\u2066iso"),
        ("\x1b[31mred", r"\u001b[31mred"),
        (r"a\b", r"a\\b"),
        (r"\u202e", r"\\u202e"),
    ],
)
def test_unseen_characters_are_escaped(label: str, expected: str):
    assert shown(label) == expected
    assert read(expected, Vocabulary.of([label])) == label


def test_long_labels_are_cut_and_found_again():
    start = "x" * 5000
    labels = [start, start + "y", start + "z", "short"]
    texts = [shown(label) for label in labels]
    assert all(len(text) <= MOST_SHOWN for text in texts) and len({*texts}) == 4
    assert [read(text, Vocabulary.of(labels)) for text in texts] == labels
    assert read(texts[0], Vocabulary.of(["other"])) == texts[0]  # to be looked up, and not found


def test_a_label_cannot_pass_for_another_that_is_cut():
    long = "y" * 1000
    fake = shown(long)
    vocabulary = Vocabulary.of([long, fake])
    assert shown(fake) != fake
    assert read(shown(fake), vocabulary) == fake and read(shown(long), vocabulary) == long


def test_texts_that_are_not_escapes_are_left_alone():
    for text in ("C:\\temp", "\\", "\\x41", "\\u12"):
        assert read(text, Vocabulary.of(["a"])) == text
    assert read("\\Uffffffff", Vocabulary.of(["a"])) == "\N{REPLACEMENT CHARACTER}"


@settings(max_examples=150)
@given(st.lists(TEXTS, min_size=1, max_size=8, unique=True))
def test_every_label_can_be_sent_back(labels: list[str]):
    vocabulary = Vocabulary.of(labels)
    texts = [shown(label) for label in labels]
    assert [read(text, vocabulary) for text in texts] == labels
    assert len({*texts}) == len(labels)
    assert all(len(text) <= MOST_SHOWN and text.isprintable() for text in texts)
