"""Text tables: layouts, headers, and the errors of files that cannot be read."""

import gzip
from pathlib import Path

import pytest

from hopwalk.errors import DataError
from tests.support.helpers import facts_of, finding, load_text

A_FACT = {("a", "r", "b")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("facts.tsv", "a\tr\tb\n"),
        ("facts.tsv", "a\tr\tb"),
        ("facts.tsv", "a\tr\tb\r\n"),
        ("facts.tsv", "\ufeffa\tr\tb\n"),
        ("facts.tsv", "\n\na\tr\tb\n\n\n"),
        ("facts.txt", "a\tr\tb\n"),
        ("facts.txt", "a r b\n"),
        ("facts.txt", "a|r|b\n"),
        ("facts", "a;r;b\n"),
        ("facts.csv", "a,r,b\n"),
        ("facts.csv", "a;r;b\n"),
        ("facts.CSV", '"a","r","b"\n'),
        ("facts.csv", "head,relation,tail\na,r,b\n"),
        ("facts.csv", "Object,Subject,Predicate\nb,a,r\n"),
        ("facts.csv", "score,source,target,relation,comment\n0.5,a,b,r,\n"),
        ("facts.csv", "src,dst,type\na,b,r\n"),
        ("facts.triples", "a\tb\tr\n"),
        ("facts.tsv", gzip.compress(b"a\tr\tb\n", mtime=0)),
        ("facts.tsv.gz", gzip.compress(b"a\tr\tb\n", mtime=0)),
        ("facts.csv.gz", gzip.compress(b"a,r,b\n", mtime=0)),
        ("facts.triples.gz", gzip.compress(b"a\tb\tr\n", mtime=0)),
    ],
)
def test_layouts_that_are_recognised(tmp_path: Path, name: str, text: str | bytes):
    assert facts_of(load_text(tmp_path, text, name)) == A_FACT


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("b;a;r\n", {"separator": ";", "columns": "2,3,1"}),
        ("a::r::b\n", {"separator": "::"}),
        ("aéréb\n", {"separator": "é"}),
        ("a::r::b\n".replace("::", "\x01"), {"separator": "\x01"}),
        ("a b\tr\tb\n".replace("a b", "a"), {"separator": "tab"}),
        ("x\tp\ty\na\tr\tb\n", {"header": "yes"}),
        ("x\tp\ty\nb\tr\ta\n", {"columns": "y,p,x"}),
        ("a\tb\tr\n", {"format": "triples"}),
        ('"a"\t"r"\t"b"\n', {"quote": "yes"}),
        ("0\ta\tr\tb\n", {"columns": "2,3,4"}),
    ],
)
def test_layouts_from_settings(tmp_path: Path, text: str, read: dict[str, str]):
    assert facts_of(load_text(tmp_path, text, **read)) == A_FACT


def test_no_header_keeps_the_first_line(tmp_path: Path):
    text = "head\trelation\ttail\na\tr\tb\n"
    assert finding(load_text(tmp_path, text), "header").count == 1
    assert facts_of(load_text(tmp_path, text, header="no")) == {("head", "relation", "tail"), *A_FACT}


@pytest.mark.parametrize(
    "header",
    [
        "Subject,Predicate,Object,source,confidence",
        "subject,predicate,object,source,confidence",
        "SUBJECT,PREDICATE,OBJECT,SOURCE,CONFIDENCE",
        " Subject , Predicate , Object , source , confidence ",
        "head,relation,tail,source,type",
        "source,relation,target,from,edge",
        "source,type,target,subject,confidence",
        "lhs,rel,rhs,source,type",
    ],
)
def test_a_complete_family_of_names_decides(tmp_path: Path, header: str):
    """Other columns whose names could be a head, relation or tail are ignored, and a note says which."""
    dataset = load_text(tmp_path, f"{header}\na,r,b,web,0.9\n", "facts.csv")
    assert facts_of(dataset) == A_FACT
    names = [name.strip() for name in header.split(",")]
    note = finding(dataset, "chosen-columns")
    assert note.level == "note"
    assert f"the columns {', '.join(names[:3])}, not {names[3]}" in note.message.replace(" , ", ", ").replace("  ", " ")
    assert note.remedy == "Set read.columns to choose other columns."


def test_a_family_is_found_in_any_order_of_columns(tmp_path: Path):
    dataset = load_text(tmp_path, "source\tobject\tconfidence\tpredicate\tsubject\nweb\tb\t0.9\tr\ta\n")
    assert facts_of(dataset) == A_FACT


def test_a_header_without_competing_columns_has_no_note_about_columns(tmp_path: Path):
    dataset = load_text(tmp_path, "subject,relation,tail,confidence\na,r,b,0.9\n", "facts.csv")
    assert [found.code for found in dataset.findings] == ["header"]


AMBIGUOUS = {
    "subject,predicate,object,source,relation,target": (
        "facts may be in subject, predicate, object or in source, relation, target",
        "1,2,3",
    ),
    "Source,Target,Subject,Object,Relation": (
        "facts may be in Subject, Relation, Object or in Source, Relation, Target",
        "3,5,4",
    ),
    "subject,source,relation,tail": ("subject or source may be the head", "1,3,4"),
    "subject,source,relation,edge,tail": ("subject or source may be the head, and relation or edge may be the relation", "1,3,5"),
    "source,target,edge,type": ("edge or type may be the relation", "1,3,2"),
    "head,head,relation,tail": ("head (column 1) or head (column 2) may be the head", "1,3,4"),
}


@pytest.mark.parametrize("header", AMBIGUOUS)
@pytest.mark.parametrize("read", [{}, {"header": "yes"}], ids=["auto", "header"])
def test_an_ambiguous_header_names_the_columns_that_compete(tmp_path: Path, header: str, read: dict[str, str]):
    problem, columns = AMBIGUOUS[header]
    row = ",".join("abcdefg"[: header.count(",") + 1])
    with pytest.raises(DataError) as error:
        load_text(tmp_path, f"{header}\n{row}\n", "facts.csv", **read)
    assert error.value.problem == f"the header is ambiguous: {problem}"
    assert error.value.remedy == f'Set read.columns to the columns of head, relation and tail, e.g. "{columns}".'
    assert error.value.line == 1
    chosen = load_text(tmp_path, f"{header}\n{row}\n", "facts.csv", columns=columns, **read)  # the remedy works
    assert facts_of(chosen) == {tuple("abcdefg"[int(column) - 1] for column in columns.split(","))}


def test_names_of_columns_in_facts_are_facts(tmp_path: Path):
    facts = {("source", "relation", "target"), ("subject", "type", "object")}
    text = "".join(f"{head},{relation},{tail}\n" for head, relation, tail in sorted(facts))
    assert facts_of(load_text(tmp_path, text, "facts.csv", header="no")) == facts


@pytest.mark.parametrize(
    "label",
    [
        "NA",
        "null",
        "None",
        "nan",
        "007",
        "1e5",
        "true",
        "-",
        '"',
        'say "hi"',
        "'",
        "#",
        "a,b",
        " a ",
        "ünïcødé",
        "\u2028",
        "日本",
        "x" * 10000,
        "é",
        "\x00",
        "\\N",
        "\\",
        "=1+1",
        "<script>",
        "\u202eabc",
    ],
)
def test_strings_stay_strings(tmp_path: Path, label: str):
    assert facts_of(load_text(tmp_path, f"{label}\tr\tb\na\tr\t{label}\n")) == {(label, "r", "b"), ("a", "r", label)}
    quoted = label.replace('"', '""')
    text = f'"{quoted}","r","b"\n"a","r","{quoted}"\n'
    assert facts_of(load_text(tmp_path, text, "facts.csv")) == {(label, "r", "b"), ("a", "r", label)}


def test_first_line_that_may_be_a_header(tmp_path: Path):
    facts = "a\tr\tb\nb\tr\tc\nc\tr\tb\n"
    assert finding(load_text(tmp_path, "person\thow\tthing\n" + facts), "doubtful-first-line").level == "warning"
    assert load_text(tmp_path, facts).findings == ()
    assert load_text(tmp_path, "person\thow\tthing\n" + facts, header="no").findings == ()


def test_missing_last_line_end_does_not_matter(tmp_path: Path):
    for text in ("a\tr\tb\nc\tr\td", "a\tr\tb\r\nc\tr\td\r"):
        assert facts_of(load_text(tmp_path, text)) == {("a", "r", "b"), ("c", "r", "d")}


@pytest.mark.parametrize("label", ["tab\there", "line\nbreak", "line\r\nbreak", "\n", "ends in\r"])
def test_quotes_protect_tabs_and_line_breaks(tmp_path: Path, label: str):
    assert facts_of(load_text(tmp_path, f'"{label}",r,b\n', "facts.csv")) == {(label, "r", "b")}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "the file is empty"),
        ("\n\n", None, "the file is empty"),
        ("head\trelation\ttail\n", None, "the file has no facts"),
        ("a\tb\n", 1, "expected 3 columns (head, relation, tail), found 2"),
        ("a\tr\tb\tc\n", 1, "found 4 separated by a tab"),
        ("a\tr\tb\na\tr\n", 2, "expected 3 columns, found 2: 'a\\tr'"),
        ("a\tr\tb\n\na\tr\tb\tc\n", 3, "expected 3 columns, found 4"),
        ("\n\na\tr\tb\na\tr\n", 4, "found 2"),
        ("a\tr\tb\na\tr\na\n", 2, "(and 1 more such line)"),
        ("a\tr\tb\na\t\tb\n", 2, "column 2 is empty"),
        ("a\tr\t\n", 1, "column 3 is empty"),
        ("a\tr\tb\n\n\t\t\n", 3, "column 1 is empty"),
        (b"a\tr\tb\na\t\xff\tb\n", 2, "the bytes b'\\xff' are not UTF-8 text"),
        ("a\tr\tb\n".encode("utf-16"), None, "this is UTF-16 text"),
        (b"PK\x03\x04rest", None, "this is a zip archive"),
        (gzip.compress(b"a\tr\tb\n" * 100, mtime=0)[:-12], None, "damaged or truncated"),
        (gzip.compress(b"a\tr\tb\n" * 100, mtime=0)[:12], None, "damaged or truncated"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str | bytes, line: int | None, message: str):
    with pytest.raises(DataError) as error:
        load_text(tmp_path, text)
    assert message in str(error.value)
    assert "facts.tsv" in str(error.value)
    if line is not None:
        assert error.value.line == line


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('a,r,b\n"a,r,b\n', 2, "quotes do not match"),
        ('a,r,b\n"a"x,r,b\n', 2, "quotes do not match"),
        ('a,r,b\n"",r,b\n', 2, "column 1 is empty"),
        ('"a\nb",r,b\na,r\n', 3, "found 2"),
    ],
)
def test_errors_of_quotes(tmp_path: Path, text: str, line: int, message: str):
    with pytest.raises(DataError, match=message) as error:
        load_text(tmp_path, text, "facts.csv")
    assert error.value.line == line


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ({"columns": "1,2"}, "read.columns = '1,2' is not valid: expected three columns. Set read.columns, e.g. \"1,3,2\"."),
        ({"columns": "1,2,4"}, "there is no column '4'"),
        ({"columns": "0,1,2"}, "there is no column '0'"),
        ({"columns": "head,rel,tail"}, "there is no column 'head'"),
        ({"columns": "a,rel,b"}, "there is no column 'rel'. Columns are: a, r, b."),
        ({"separator": "\n"}, "is not valid: quotes and line breaks cannot separate columns"),
        ({"separator": "::", "quote": "yes"}, "read.separator = '::' is not valid: expected one character"),
        ({"separator": ";"}, 'found 1 separated by a semicolon. Set read.columns, e.g. "1,2,3", or read.separator'),
        ({"format": "parquet"}, "the Parquet file is not valid"),
        ({"labels": "no_such_file.tsv"}, "no_such_file.tsv"),
    ],
)
def test_wrong_options(tmp_path: Path, read: dict[str, str], message: str):
    with pytest.raises(DataError) as error:
        load_text(tmp_path, "a\tr\tb\n", **read)
    assert message in str(error.value)
