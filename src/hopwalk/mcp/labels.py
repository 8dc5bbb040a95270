"""Labels of the graph as agents see them: on one line, without unseen characters, not long; and back.

A label is what somebody wrote into a file. Characters that are not printable are escaped (`\\u202e`), so is the backslash, and a
long label is cut to its beginning with a digest of the whole. An agent can send what it was shown: it is read back to the label.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from hashlib import blake2s

from hopwalk.data.vocabulary import Vocabulary
from hopwalk.mcp.limits import MOST_SHOWN

CUT = re.compile(r"(?P<start>.*)…#(?P<digest>[0-9a-f]{12})", re.DOTALL)
ESCAPED = re.compile(r"\\(\\|u[0-9a-f]{4}|U[0-9a-f]{8})")
PLAIN = re.compile(r"(?:[^\\]|\\\\|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*", re.DOTALL)
MOST_COMPARED = 10_000  # labels with the same beginning


def shown(label: str) -> str:
    """The label as agents see it.

    >>> shown("COX-1"), shown("a\\nb"), shown("\\u202egnp.exe")
    ('COX-1', 'a\\\\u000ab', '\\\\u202egnp.exe')
    """
    parts, length = [], 0
    for char in label[: MOST_SHOWN + 1]:
        part = _escaped(char)
        parts.append(part)
        length += len(part)
    if length <= MOST_SHOWN and not CUT.fullmatch(label):
        return "".join(parts)
    while length > MOST_SHOWN - 14:  # room for the digest
        length -= len(parts.pop())
    return f"{''.join(parts)}…#{_digest(label)}"


def read(text: str, vocabulary: Vocabulary) -> str:
    """The label that is shown as this text; other texts as they are, to be looked up as a name.

    >>> read("a\\\\u000ab", Vocabulary.of(["a\\nb"]))
    'a\\nb'
    """
    if cut := CUT.fullmatch(text):
        return _whole(_unescaped(cut["start"]), cut["digest"], vocabulary) or text
    return _unescaped(text)


def _escaped(char: str) -> str:
    if char == "\\":
        return r"\\"
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _unescaped(text: str) -> str:
    if not PLAIN.fullmatch(text):
        return text
    return ESCAPED.sub(lambda found: "\\" if found[1] == "\\" else _char(int(found[1][1:], 16)), text)


def _char(code: int) -> str:
    return chr(code) if code < 0x110000 else "\N{REPLACEMENT CHARACTER}"


def _digest(label: str) -> str:
    return blake2s(label.encode(errors="surrogatepass"), digest_size=6).hexdigest()


def _whole(start: str, digest: str, vocabulary: Vocabulary) -> str | None:
    """The label with this beginning and digest. Labels are sorted by their UTF-8, which is the order of Python's text."""
    first = bisect_left(vocabulary, start)
    for row in range(first, min(first + MOST_COMPARED, len(vocabulary))):
        label = vocabulary[row]
        if not label.startswith(start):
            return None
        if _digest(label) == digest:
            return label
    return None
