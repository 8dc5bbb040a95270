"""Thousands of random tables: read exactly, or refused with one of our own errors.

The oracles are Python's own `str.split` and `csv` in strict mode. Cases that fuzzing found are plain tests.
"""

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwalk.config.settings import ReadSettings
from hopwalk.data import tables
from hopwalk.data.source import Source
from hopwalk.errors import DataError, HopwalkError
from tests.support.fuzzing import (
    PIECES,
    cases,
    damaged,
    texts,
)
from tests.support.helpers import Fact, facts_of, load_text


def expected_rows(content: bytes, *, quoted: bool) -> list[Fact] | None:
    """The facts in a comma-separated file by Python's own means; None if it must be refused."""
    try:
        text = content.removeprefix(b"\xef\xbb\xbf").decode()
        if quoted:  # a carriage return that ends no line is a character like any other
            text = re.sub(r"\r(?!\n|\Z)", RETURN, text)
        lines = re.findall(r"[^\n]*\n|[^\n]+$", text)
        if quoted:
            rows = [[field.replace(RETURN, "\r") for field in row] for row in strict_csv(lines) if row]
        else:
            rows = [line.split(",") for line in map(without_ending, lines) if line]
    except (UnicodeDecodeError, csv.Error):
        return None
    if not rows or any(len(row) != 3 or not all(row) for row in rows):
        return None
    return [(head, relation, tail) for head, relation, tail in rows]


RETURN = "\udc99"  # no valid text holds it


def strict_csv(lines: list[str]) -> list[list[str]]:
    limit = csv.field_size_limit(1_000_000)
    try:
        return list(csv.reader(lines, strict=True))
    finally:
        csv.field_size_limit(limit)


def without_ending(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def read_rows(content: bytes, *, quoted: bool) -> list[Fact] | None:
    """The facts that hopwalk reads from a comma-separated file; None if it refuses the file."""
    settings = ReadSettings(separator=",", header="no", quote="yes" if quoted else "no")
    try:
        table, _ = tables.read_triples(Source("facts", content=content), settings, tail_before_relation=False)
    except HopwalkError:
        return None
    return list(table.iter_rows())


@pytest.mark.parametrize("quoted", [False, True], ids=["unquoted", "quoted"])
@cases(2500)
@given(content=texts(PIECES))
def test_a_table_is_read_as_the_oracle_reads_it_or_refused(quoted: bool, content: bytes):
    assert read_rows(content, quoted=quoted) == expected_rows(content, quoted=quoted)


@pytest.mark.parametrize("quoted", [False, True], ids=["unquoted", "quoted"])
@cases(1000)
@given(data=st.data())
def test_a_damaged_table_is_read_as_the_oracle_reads_it_or_refused(quoted: bool, data: st.DataObject):
    whole = b'"a","r, ""s""","b\nc"\r\n"d",r,"e"\n\nf,"r","g"\n' if quoted else b"a,r,b\r\nc,\xc3\xa9,d\n\ne,NA,f\ng,r,h"
    content = data.draw(damaged(whole))
    assert read_rows(content, quoted=quoted) == expected_rows(content, quoted=quoted)


@pytest.mark.parametrize("quoted", [False, True], ids=["unquoted", "quoted"])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"a\r,r,b\na,r,b\n", id="a carriage return at the end of a field"),
        pytest.param(b"a,r,b\nc,r,d,", id="one separator too many in a last line without an ending"),
        pytest.param(b'a,r,b\nc,r,""x"', id="text after the closing quote"),
        pytest.param(b'a,r,b\nc,r,"x" y"', id="text between quotes"),
        pytest.param(b'a,r,b\nc,r,",""', id="a quote that never closes"),
        pytest.param(b'a,r,5" disk\nc,r,d\n', id="a quote inside an unquoted field"),
        pytest.param(b'a",r,b\nc,r,d"\n', id="quotes inside unquoted fields of two lines"),
        pytest.param(b"\r\r", id="nothing but carriage returns"),
        pytest.param(b"a,r,b\rc,r,d\r", id="lines that end in a carriage return alone"),
        pytest.param(b"\n\n\xef\xbb\xbfa,r,b\n", id="a byte-order mark that is not at the beginning"),
        pytest.param(b"\n" * 70_000 + b"a,r,b\n", id="70,000 blank lines before the first fact"),
        pytest.param(b'"' + b"x" * 200_000 + b'",r,b\n', id="a label of 200,000 characters in quotes"),
        pytest.param(b'"x\n' + b"y" * 70_000 + b'",r,b\n', id="a label of 70,000 characters on two lines"),
        pytest.param(b"x" * 200_000 + b",r,b\nc,r,d", id="a label of 200,000 characters"),
    ],
)
def test_tables_that_fuzzing_found(content: bytes, quoted: bool):
    assert read_rows(content, quoted=quoted) == expected_rows(content, quoted=quoted)


def test_a_quoted_line_break_does_not_make_a_header(tmp_path: Path):
    dataset = load_text(tmp_path, b'"he\nad","relation","tail"\nx,y,z\n', "facts.csv")
    assert facts_of(dataset) == {("he\nad", "relation", "tail"), ("x", "y", "z")}


@pytest.mark.parametrize("line", ["e,f,g", "e,f,g,h,i", "e,f,g,", "e,f"])
def test_a_wrong_number_of_columns_is_found_in_columns_that_are_not_read(tmp_path: Path, line: str):
    text = f"a,b,c,d\n{line}\nw,x,y,z\n"
    if line.count(",") == 3:
        assert facts_of(load_text(tmp_path, text, "facts.csv", columns="1,2,3")) >= {("e", "f", "g")}
    else:
        with pytest.raises(DataError, match=r"facts\.csv:2: expected 4 columns"):
            load_text(tmp_path, text, "facts.csv", columns="1,2,3")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"a,r,b\nc,r\n", 2),
        (b"\n\na,r,b\n\nc,r\n", 5),
        (b"\xef\xbb\xbf\r\na,r,b\r\n\r\nc,,d\r\n", 4),
        (b'"a\nb",r,c\nd,r\n', 3),
        (b'a,r,b\n"c\nd",r\n', 2),
        (b'a,r,b\n"c\nd","",e\n', 2),
        (b'a,r,b\nc,r,"d\ne,r,f\ng,r,h\n', 2),
        (b"head,relation,tail\na,r,b\nc,\xff,d\n", 3),
        (b"\n\na,b\nc,d\n", 3),
    ],
)
def test_an_error_names_the_line_where_the_wrong_row_begins(tmp_path: Path, content: bytes, line: int):
    with pytest.raises(DataError) as caught:
        load_text(tmp_path, content, "facts.csv")
    assert caught.value.line == line
    assert caught.value.path == str(tmp_path / "facts.csv")
