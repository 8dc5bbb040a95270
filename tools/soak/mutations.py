"""Ways to spoil bytes: by chance, and where it hurts (numbers, nesting, lengths, directions of text)."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

TOKENS: list[bytes] = [
    *(
        b"\t",
        b"\n",
        b"\r",
        b'"',
        b",",
        b" ",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"9",
        b"-",
        b"{",
        b"[",
        b"]",
        b"}",
        b"=",
        b"<",
        b">",
    ),
    *(b"NaN", b"1e999", b"-1", b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"PK\x03\x04", b"\x1f\x8b", b"\xff\xfe", b"PAR1"),
    *(
        "\u202e".encode(),
        "\u2066".encode(),
        "\x85".encode(),
        "e\u0301".encode(),
        b"\x1b[31m",
        b"../../etc/passwd",
        b"%00",
        b"'''",
    ),
]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**23, 10**400, 0.5, -0.0, 1e308, -1e308, float("nan"), float("inf")),
    *("", "x", "x" * 70_000, "\u202egnp.exe", "\x1b[2J", "\x00", "../..", "nan", "1", [], {}, [[]], [1] * 1000, {"a": {"b": {}}}),
]
TOML_VALUES = [
    *("-1", "0", "1", "nan", "inf", "1e308", "9" * 30, "9" * 5000, "0x" + "f" * 100, '""', '"x"', "true", "[]", "{}", "[[1]]"),
    *("[" * 2000, '"' + "x" * 70_000 + '"', "1979-05-27", '"\\u202e"', "1_0", "'''"),
]


def spoilt(content: bytes, random: Random, name: str = "") -> bytes:
    """The content with some damage that suits a file of that name."""
    if name.endswith((".json", ".jsonl")) and random.random() < 0.6:
        return _spoilt_json(content, random)
    if name.endswith(".toml") and random.random() < 0.6:
        return _spoilt_toml(content, random)
    return spoilt_bytes(content, random)


def spoilt_bytes(content: bytes, random: Random) -> bytes:
    """The content with one to four pieces changed, put in, taken out, doubled, repeated or cut off."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        place = random.randint(0, len(made))
        match random.randrange(8):
            case 0 | 1:
                if made:
                    place = random.randrange(len(made))
                    made[place] ^= 1 << random.randrange(8)
            case 2:
                made[place : place + 1] = bytes([random.randrange(256)])
            case 3:
                made[place:place] = random.choice(TOKENS)
            case 4:
                del made[place : place + random.choice((1, 2, 8, 64))]
            case 5:
                made[place:place] = made[max(place - random.randint(1, 60), 0) : place]
            case 6:
                made[place:place] = made[max(place - 8, 0) : place] * random.choice((10, 1000, 10_000))
            case _:
                del made[place:]
    return bytes(made)


def _spoilt_json(content: bytes, random: Random) -> bytes:
    """One value of the JSON, or of one of its lines, replaced by another; a key taken out."""
    lines = [content]
    try:
        value = json.loads(content)
    except RecursionError:  # it was spoilt before
        return spoilt_bytes(content, random)
    except ValueError:
        lines = content.splitlines() or [b""]
        row = random.randrange(len(lines))
        try:
            value = json.loads(lines[row])
        except (ValueError, RecursionError):
            return spoilt_bytes(content, random)
    else:
        row = 0
    holder, places = value, []
    while isinstance(holder, dict | list) and holder:
        place = random.choice(list(holder)) if isinstance(holder, dict) else random.randrange(len(holder))
        places.append((holder, place))
        holder = holder[place]
    if not places:
        return spoilt_bytes(content, random)
    holder, place = random.choice(places)
    if random.random() < 0.15:
        del holder[place]
    else:
        holder[place] = random.choice(VALUES)
    lines[row] = json.dumps(value).encode()
    return b"\n".join(lines) + b"\n"


def _spoilt_toml(content: bytes, random: Random) -> bytes:
    """One value of the TOML replaced by another."""
    found = list(re.finditer(rb"(?m)^([\w-]+) = (.*)$", content))
    if not found:
        return spoilt_bytes(content, random)
    chosen = random.choice(found)
    return content[: chosen.start(2)] + random.choice(TOML_VALUES).encode() + content[chosen.end(2) :]
