"""Text in drawings: cleaned, measured without a font, broken into lines, and isolated from the writing direction around it."""

from __future__ import annotations

import re
import unicodedata

BIDI_CONTROLS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
MOST_LINES = 3
MOST_CHARACTERS = 200  # of a text that are drawn


def clean(text: str) -> str:
    """The text without characters that SVG forbids or that change the writing direction."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_harmful(char) else char for char in text)


def _is_harmful(char: str) -> bool:
    return char in BIDI_CONTROLS or unicodedata.category(char) in ("Cc", "Cs") or ord(char) & 0xFFFE == 0xFFFE


def isolated(text: str, most: int) -> str:
    """The text cut to so many characters, and isolated from the writing direction of the text around it."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return f"{ISOLATE}{clean(cut)}{END_ISOLATE}"


def wrapped(text: str, most: float, size: float) -> list[str]:
    """The text in lines of a width, at most three; what is left out is an ellipsis.

    Lines end after blanks and after `_`, `/`, `.`, `,` and hyphens, and in long words wherever they must. Of addresses, whose end
    matters most, the beginning is left out.

    >>> wrapped("amino acid, peptide, or protein", 130, 16)
    ['amino acid,', 'peptide, or', 'protein']
    """
    is_address, is_long = "/" in text and " " not in text, len(text) > MOST_CHARACTERS
    text = clean(text[-MOST_CHARACTERS:] if is_address else text[:MOST_CHARACTERS])
    lines = _lines(text, most, size)
    if len(lines) <= MOST_LINES and not is_long:
        return lines
    if is_address:
        return _lines("…" + _fitted("".join(reversed("".join(lines[-MOST_LINES:]))), most, size)[::-1], most, size)[-MOST_LINES:]
    last = lines[MOST_LINES - 1 : MOST_LINES] or [""]
    return [*lines[: MOST_LINES - 1], _cut(last[0], most, size)]


def _fitted(backward: str, most: float, size: float) -> str:
    """As much of a text as surely fits into the lines beside an ellipsis."""
    taken, width = 0, size
    while taken < len(backward) and width + text_width(backward[taken], size) <= MOST_LINES * most * 0.8:
        width += text_width(backward[taken], size)
        taken += 1
    return backward[:taken]


def _cut(line: str, most: float, size: float) -> str:
    while line and text_width(line + "…", size) > most:
        line = line[:-1]
    return f"{line.rstrip(' _-')}…"


def longest_word(text: str, size: float) -> float:
    """The width of the longest part of a text that is not broken where there is room for it."""
    words = _words(clean(text[:MOST_CHARACTERS]))
    return max((text_width(word.rstrip(), size) for word in words), default=0.0)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\s_/.,\-]*(?:[\s_/.,\-]+|$)", text)


def _lines(text: str, most: float, size: float) -> list[str]:
    lines, line = list[str](), ""
    for word in _words(text):
        if line and text_width((line + word).rstrip(), size) > most:
            lines.append(line.rstrip())
            line = ""
        for char in word:
            if line and text_width(line + char, size) > most and char.strip():
                lines.append(line.rstrip())
                line = ""
            line += char
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def text_width(text: str, size: float) -> float:
    """The approximate width of the text in pixels, rather too wide than too narrow."""
    return size * sum(_letter_width(char) for char in text)


def _letter_width(char: str) -> float:
    if char.isascii():
        if char in "ijl.,:;'|!()[] ":
            return 0.36
        if char in "mwMW@%":
            return 0.98
        return 0.72 if char.isupper() else 0.61
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(char) in ("W", "F"):
        return 1.05
    return 0.98 if char in "—…" else 0.72 if char.isupper() else 0.61
