"""Malformed input by the thousand: every file gives exactly the facts it states, or one of our own errors.

The oracles are Python's own `str.split` and `csv` in strict mode. What fuzzing has found stands in plain cases beside it.
"""

import contextlib
import csv
import gzip
import io
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hopwalk
from hopwalk import api
from hopwalk.cli.main import run
from hopwalk.config import ReadSettings, Settings, changed
from hopwalk.data import tables
from hopwalk.data.dataset import Dataset
from hopwalk.data.source import Source
from hopwalk.data.statistics import statistics
from hopwalk.data.writing import write_folder
from hopwalk.errors import DataError, HopwalkError
from tests.helpers import FAMILY, Fact, dataset_of, facts_of, load_text

ROLES = ("head", "relation", "tail")
AS_GIVEN = {"header": "no", "fold_inverses": False}  # no line taken for a header, no relation for an inverse


def cases(number: int) -> settings:
    """So many cases, the same ones in every run."""
    return settings(max_examples=number, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def load(path: Path, **read: Any) -> Dataset:
    return hopwalk.load_dataset(path, changed(Settings(), {f"read.{name}": value for name, value in read.items()}))


def load_files(folder: Path, files: dict[str, bytes], **read: Any) -> Dataset:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return load(folder if len(files) > 1 else folder / next(iter(files)), **read)


def check_round_trip(dataset: Dataset, folder: Path) -> None:
    """What is written is read again as the same data, from text and from a saved file."""
    dataset.save(folder / "saved" / api.PREPARED_DATASET)
    assert load(folder / "saved").fingerprint == dataset.fingerprint
    write_folder(dataset, folder / "written")
    assert load(folder / "written", fold_inverses=False).fingerprint == dataset.fingerprint


# --- Strategies ---------------------------------------------------------------------------------------------------------

NASTY = [
    "NA",
    "null",
    "None",
    "007",
    "1e5",
    '""',
    '"',
    "'",
    "\\",
    "#",
    " ",
    " a ",
    "\ufeffa",
    "\u2028",
    "\x00",
    "\x85",
    "\x1c",
    "é",
]
NASTY += [
    "e\u0301",
    "\U0001f600",
    "\u202eab",
    "=1+1",
    "a,b",
    "a;b",
    "a|b",
    "head",
    "relation",
    "tail",
    "_r",
    "r_inv",
    "\\N",
    "x" * 10_000,
]
LABELS = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
)
ONE_LINE = LABELS.filter(lambda label: not re.search(r"[\t\r\n]", label))
PIECES = [*'aab,,,, ;"\n\n\r', "\r\n", '"a"', '""', "\x00", "\u2028", "\ufeff", "é", "a,b,c\n", '"a,b","c\n","d"\n', "a,r,b,\n"]


def facts_with(labels: st.SearchStrategy[str]) -> st.SearchStrategy[list[Fact]]:
    return st.lists(st.tuples(labels, labels, labels), min_size=1, max_size=8)


def texts(pieces: list[str]) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(pieces), max_size=25).map(lambda parts: "".join(parts).encode())


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The content with some of its bytes changed, taken out, doubled or cut off."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content)))
        kind = draw(st.sampled_from(["put", "change", "delete", "double", "cut"]))
        if kind == "put":
            content[place:place] = draw(
                st.sampled_from([b"\t", b"\n", b"\r", b'"', b",", b" ", b"\x00", b"\xff", b"\xef\xbb\xbf", b"9"])
            )
        elif kind == "change":
            content[place : place + 1] = bytes([draw(st.integers(0, 255))])
        elif kind == "delete":
            del content[place : place + draw(st.integers(1, 8))]
        elif kind == "double":
            content[place:place] = content[max(place - draw(st.integers(1, 30)), 0) : place]
        elif draw(st.booleans()):
            del content[place:]
    return bytes(content)


# --- Oracles ------------------------------------------------------------------------------------------------------------


def stated_rows(content: bytes, *, quoted: bool) -> list[Fact] | None:
    """The facts that a comma-separated file states, by Python's own means; none if it must be refused."""
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
    """The facts that hopwalk reads from a comma-separated file; none if it refuses."""
    how = ReadSettings(separator=",", header="no", quote="yes" if quoted else "no")
    try:
        table, _ = tables.read_triples(Source("facts", content=content), how, tail_before_relation=False)
    except HopwalkError:
        return None
    return list(table.iter_rows())


# --- Tables: the same rows as the oracle --------------------------------------------------------------------------------


@pytest.mark.parametrize("quoted", [False, True], ids=["unquoted", "quoted"])
@cases(2500)
@given(content=texts(PIECES))
def test_a_table_is_read_as_the_oracle_reads_it_or_refused(quoted: bool, content: bytes):
    stated, read = stated_rows(content, quoted=quoted), read_rows(content, quoted=quoted)
    assert read == stated


@pytest.mark.parametrize("quoted", [False, True], ids=["unquoted", "quoted"])
@cases(1000)
@given(data=st.data())
def test_a_damaged_table_is_read_as_the_oracle_reads_it_or_refused(quoted: bool, data: st.DataObject):
    whole = b'"a","r, ""s""","b\nc"\r\n"d",r,"e"\n\nf,"r","g"\n' if quoted else b"a,r,b\r\nc,\xc3\xa9,d\n\ne,NA,f\ng,r,h"
    content = data.draw(damaged(whole))
    stated, read = stated_rows(content, quoted=quoted), read_rows(content, quoted=quoted)
    assert read == stated


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
    stated, read = stated_rows(content, quoted=quoted), read_rows(content, quoted=quoted)
    assert read == stated


def test_a_quoted_line_break_does_not_make_a_header(tmp_path: Path):
    dataset = load_text(tmp_path, b'"he\nad","relation","tail"\nx,y,z\n', "facts.csv")
    assert facts_of(dataset) == {("he\nad", "relation", "tail"), ("x", "y", "z")}


@pytest.mark.parametrize("line", ["e,f,g", "e,f,g,h,i", "e,f,g,", "e,f"])
def test_a_wrong_number_of_columns_is_found_in_columns_that_are_not_wanted(tmp_path: Path, line: str):
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


# --- All formats: a data set that round-trips, or our own error ---------------------------------------------------------


def parquet(facts: list[Fact]) -> bytes:
    stream = io.BytesIO()
    pl.DataFrame(facts, schema=ROLES, orient="row").write_parquet(stream)
    return stream.getvalue()


def in_lines(facts: list[Fact], separator: str = "\t") -> bytes:
    return "".join(f"{separator.join(fact)}\n" for fact in facts).encode()


TURTLE = b"""@prefix : <http://x/> .
:a :r :b, :c ; :s _:z .
<http://x/a> <http://www.w3.org/2000/01/rdf-schema#label> "A\\t\xc3\xa9"@de, 'B'@en .
[] :r [ :s 3 ] .
"""
N_TRIPLES = b'<http://a> <http://r> <http://b> .\n_:x <http://r> <http://a> .\n<http://a> <http://p> "3" .\n'
WHOLE_FILES = {
    "facts.tsv": in_lines(FAMILY),
    "facts.csv": b'"ann","knows, ""well""",bob\nhead,"of\n",tail\r\n\nx,y,z',
    "facts.triples": in_lines(FAMILY),
    "facts.txt": in_lines(FAMILY, " "),
    "facts.tsv.gz": gzip.compress(in_lines(FAMILY), mtime=0),
    "facts.parquet": parquet(FAMILY),
    "facts.nt": N_TRIPLES,
    "facts.ttl": TURTLE,
}
OPENKE = {
    "entity2id.txt": b"3\na\t0\nb c\t1\nd\t2\n",
    "relation2id.txt": b"2\nr\t0\ns\t1\n",
    "train2id.txt": b"2\n0 1 0\n1 2 1\n",
    "valid2id.txt": b"1\n0 2 0\n",
    "test2id.txt": b"1\n2 0 1\n",
}
MINERVA = {
    "train.txt": in_lines(FAMILY[:3]),
    "dev.txt": in_lines(FAMILY[3:4]),
    "test.txt": in_lines(FAMILY[4:5]),
    "graph.txt": in_lines(FAMILY),
    "labels.tsv": b"ann\tAnn A.\nbob\tBob\nmother_of\tis mother of\n",
}


def check_contract(files: dict[str, bytes], **read: Any) -> None:
    with new_folder() as folder:
        (folder / "data").mkdir()
        try:
            dataset = load_files(folder / "data", files, **read)
        except HopwalkError as error:
            assert error.problem
            return
        check_round_trip(dataset, folder)


@pytest.mark.parametrize("name", WHOLE_FILES)
@cases(120)
@given(data=st.data())
def test_damaged_files(name: str, data: st.DataObject):
    check_contract({name: data.draw(damaged(WHOLE_FILES[name]))})


@pytest.mark.parametrize("name", ["facts.tsv", "facts.csv", "facts.nt", "facts.parquet", "facts.tsv.gz"])
@cases(120)
@given(content=st.one_of(st.binary(max_size=60), texts(PIECES), st.text(max_size=30).map(lambda text: text.encode("utf-16"))))
def test_files_of_anything(name: str, content: bytes):
    check_contract({name: content})


@pytest.mark.parametrize("whole", [OPENKE, MINERVA], ids=["openke", "minerva"])
@cases(150)
@given(data=st.data())
def test_damaged_folders(whole: dict[str, bytes], data: st.DataObject):
    name = data.draw(st.sampled_from(sorted(whole)))
    check_contract(whole | {name: data.draw(damaged(whole[name]))})


IDS = st.sampled_from(["0", "1", "2", "-1", "3", "00", "+1", "x", "", "1.0", "9" * 30])


@cases(200)
@given(rows=st.lists(st.lists(IDS, min_size=2, max_size=4), max_size=4), count=st.sampled_from(["0", "1", "2", "-1", "", "x"]))
def test_openke_triples_are_the_labels_of_their_ids_or_refused(rows: list[list[str]], count: str):
    text = f"{count}\n" + "".join(f"{' '.join(row)}\n" for row in rows)
    entities, relations = ["a", "b c", "d"], ["r", "s"]
    with new_folder() as folder:
        try:
            dataset = load_files(folder, OPENKE | {"train2id.txt": text.encode(), "test2id.txt": b"1\n0 0 0\n"}, **AS_GIVEN)
        except HopwalkError:
            return
        stated = {(entities[int(head)], relations[int(relation)], entities[int(tail)]) for head, tail, relation in rows}
        held_out = facts_of(dataset, "valid") | facts_of(dataset, "test")
        assert facts_of(dataset) == stated - held_out


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"train2id.txt": b"2\n0 1 0\n\n\n0 9 0\n"}, 5),
        ({"train2id.txt": b"2\n0 1 0\n\n0 x 0\n"}, 4),
        ({"entity2id.txt": b"3\na\t0\n\nb\tx\nc\t2\n"}, 4),
    ],
)
def test_openke_errors_name_the_line_even_after_blank_lines(tmp_path: Path, files: dict[str, bytes], line: int):
    with pytest.raises(DataError) as caught:
        load_files(tmp_path, OPENKE | files)
    assert caught.value.line == line


def test_an_openke_table_shorter_than_it_promises_is_found(tmp_path: Path):
    dataset = load_files(tmp_path, OPENKE | {"entity2id.txt": b"7\na\t0\nb c\t1\nd\t2\n"})
    assert [finding.count for finding in dataset.findings if finding.code == "count-mismatch"] == [4]


def test_an_openke_count_may_be_absurd(tmp_path: Path):
    check_contract(OPENKE | {"train2id.txt": b"9" * 5000 + b"\n0 1 0\n"})


@pytest.mark.parametrize(
    ("files", "read"),
    [
        pytest.param(
            {"facts.nt": N_TRIPLES + b'<http://a> <http://www.w3.org/2000/01/rdf-schema#label> "a\\tb\\nc" .'}, {}, id="tab"
        ),
        pytest.param(MINERVA | {"labels.tsv": b"ann\tann\n"}, {}, id="a name that is the label"),
        pytest.param(MINERVA | {"labels.tsv": b"nobody\tNobody\n"}, {}, id="a name for nobody"),
        pytest.param({"facts.parquet": parquet([("a\x00", "\r", "\ufeffb\n")])}, {}, id="a label of a carriage return"),
    ],
)
def test_data_that_fuzzing_found(files: dict[str, bytes], read: dict[str, Any]):
    with new_folder() as folder:
        (folder / "data").mkdir()
        check_round_trip(load_files(folder / "data", files, **read), folder)


@pytest.mark.parametrize(
    "files", [{"train.tsv": b"a\tr\tb\n", "test.tsv": b"a\tr\tb\n"}, MINERVA | {"graph.txt": in_lines(FAMILY[3:5])}]
)
def test_data_with_nothing_left_to_train_on(files: dict[str, bytes]):
    with new_folder() as folder, pytest.raises(DataError, match="no facts are left to train on"):
        load_files(folder, files)


def test_folding_inverse_relations_is_done_once_and_for_all(tmp_path: Path):
    dataset = load_text(tmp_path, "a,r,b\nb,_r,a\nd,_r,c\nd,r_inv,c\n", "facts.csv")
    write_folder(dataset, tmp_path / "written")
    assert load(tmp_path / "written").fingerprint == dataset.fingerprint


def test_repeated_facts_are_counted_also_where_inverses_are_folded(tmp_path: Path):
    dataset = load_text(tmp_path, "a,r,b\na,r,b\na,r,b\nb,r_inv,a\n", "facts.csv")
    assert [finding.count for finding in dataset.findings if finding.code == "duplicate-facts"] != []


def test_the_same_turtle_file_gives_the_same_data(tmp_path: Path):
    (tmp_path / "facts.ttl").write_bytes(TURTLE)
    assert load(tmp_path / "facts.ttl").fingerprint == load(tmp_path / "facts.ttl").fingerprint


def test_facts_held_back_are_written_too(tmp_path: Path):
    dataset = dataset_of([("a", "r", "b")], test=[("b", "r", "a")], held_back=[("a", "r", "c")])
    written = "".join(path.read_text() for path in write_folder(dataset, tmp_path))
    assert "a\tr\tc\n" in written


# --- Round trips of valid facts, whatever the labels --------------------------------------------------------------------


def as_csv(facts: list[Fact]) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(facts)
    return stream.getvalue().encode()


def check_facts(facts: list[Fact], content: bytes, name: str, **read: Any) -> None:
    with new_folder() as folder:
        (folder / name).write_bytes(content)
        dataset = load(folder / name, **AS_GIVEN, **read)
        assert sorted(dataset.labels_of(dataset.facts), key=str) == sorted({*facts}, key=str)
        assert list(dataset.entities) == sorted({end for head, _, tail in facts for end in (head, tail)}, key=str.encode)
        assert list(dataset.relations) == sorted({relation for _, relation, _ in facts}, key=str.encode)
        assert all(dataset.entities.id(label) == id_ for id_, label in enumerate(dataset.entities))
        check_round_trip(dataset, folder)


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@cases(60)
@given(facts=facts_with(ONE_LINE).filter(lambda facts: not facts[0][0].startswith("\ufeff")))
@example(facts=[("x" * 200_000, "r", "y" * 200_000)])
def test_labels_survive_tsv(compress: Callable[[bytes], bytes], facts: list[Fact]):
    check_facts(facts, compress(in_lines(facts)), "facts.tsv")


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@cases(60)
@given(facts=facts_with(LABELS))
@example(facts=[("x" * 200_000, "r", "y" * 200_000)])
def test_labels_survive_csv(compress: Callable[[bytes], bytes], facts: list[Fact]):
    check_facts(facts, compress(as_csv(facts)), "facts.csv", separator=",")


@cases(60)
@given(facts=facts_with(LABELS))
def test_labels_survive_parquet(facts: list[Fact]):
    check_facts(facts, parquet(facts), "facts.parquet")


@cases(60)
@given(names=st.dictionaries(st.sampled_from(["ann", "bob", "mother_of"]), ONE_LINE, min_size=1), byte_order_mark=st.booleans())
def test_readable_names_survive(names: dict[str, str], byte_order_mark: bool):
    content = "".join(f"{label}\t{name}\n" for label, name in names.items())
    with new_folder() as folder:
        mark = b"\xef\xbb\xbf" if byte_order_mark else b""
        dataset = load_files(folder, {"train.tsv": in_lines(FAMILY), "labels.tsv": mark + content.encode()})
        for vocabulary in (dataset.entities, dataset.relations):
            assert all(vocabulary.name(id_) == names.get(label, label) for id_, label in enumerate(vocabulary))
        write_folder(dataset, folder / "written")
        again = load(folder / "written")
        assert [again.entities.name(id_) for id_ in range(5)] == [dataset.entities.name(id_) for id_ in range(5)]


@cases(100)
@given(data=st.data(), facts=facts_with(ONE_LINE))
def test_the_order_of_lines_does_not_matter(data: st.DataObject, facts: list[Fact]):
    with new_folder() as folder:
        (folder / "one.csv").write_bytes(as_csv(facts))
        (folder / "two.csv").write_bytes(as_csv(data.draw(st.permutations(facts))))
        one, two = (load(folder / name, separator=",", header="no") for name in ("one.csv", "two.csv"))
        assert one.fingerprint == two.fingerprint
        assert (one.facts.array() == two.facts.array()).all()
        assert list(one.entities) == list(two.entities)


# --- Saved files --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    dataset = load_files(folder, MINERVA)
    api.prepare(dataset, folder / "whole")
    return folder / "whole"


def use(folder: Path) -> None:
    """Do with a prepared folder all that can be done with it."""
    dataset, graph = api.open_prepared(folder)
    for vocabulary in (dataset.entities, dataset.relations):
        assert len([vocabulary.name(id_) for id_ in range(len(vocabulary))]) == len(vocabulary)
        assert all(vocabulary.id(label) == id_ for id_, label in enumerate(vocabulary))
    for entity_id in range(graph.num_entities):
        relations, tails = graph.edges_from(entity_id)
        assert (tails[-1], relations[-1]) == (entity_id, graph.relation_ids.stay_id)
    assert statistics(dataset).fingerprint
    api.check(dataset)
    api.graph_of(dataset)
    dataset.labels_of(dataset.all_facts())
    assert repr(dataset) and repr(graph)


@pytest.mark.parametrize("name", [api.PREPARED_DATASET, api.PREPARED_GRAPH])
@cases(250)
@given(data=st.data())
def test_a_damaged_saved_file_is_refused_or_can_be_used(prepared: Path, name: str, data: st.DataObject):
    with new_folder() as folder:
        for whole in prepared.iterdir():
            (folder / whole.name).write_bytes(whole.read_bytes())
        (folder / name).write_bytes(
            data.draw(st.one_of(damaged((prepared / name).read_bytes()), flipped((prepared / name).read_bytes())))
        )
        try:
            use(folder)
        except HopwalkError as error:
            assert error.problem


@st.composite
def flipped(draw: st.DrawFn, whole: bytes) -> bytes:
    """The content with one bit the other way round."""
    bit = draw(st.integers(0, 8 * len(whole) - 1))
    return whole[: bit // 8] + bytes([whole[bit // 8] ^ (1 << bit % 8)]) + whole[bit // 8 + 1 :]


# --- Options and paths --------------------------------------------------------------------------------------------------

WORDS = st.one_of(
    st.sampled_from(
        ["", "1", "1,2,3", "3,2,1", "a,b,c", "head,relation,tail", "tab", "\\t", ",", ";", '"', "yes", "no", "auto", "umls"]
    ),
    st.sampled_from(
        ["\udcff", "\udcff,1,2", "²,1,2", "9" * 5000, "9" * 5000 + ",1,2", "x" * 300, "\n", "é", "read.quote=yes", "=", "walk=1"]
    ),
    st.text(st.characters(exclude_characters="\x00"), max_size=6),
)
OPTIONS = st.sampled_from(["--separator", "--columns", "--quote", "--format", "--labels", "--set"])


@cases(200)
@given(options=st.lists(st.tuples(OPTIONS, WORDS), max_size=2))
@example(options=[("--separator", "\udcff")])
@example(options=[("--columns", "9" * 5000 + ",1,2")])
@example(options=[("--set", "graph.fan_out=" + "9" * 5000)])
@example(options=[("--labels", "x" * 300)])
def test_options_of_the_command_line_never_give_a_traceback(options: list[tuple[str, str]]):
    with new_folder() as folder:
        (folder / "facts.csv").write_bytes(b"a,b,c\nd,e,f\n")
        arguments = [f"{name}={word}" for name, word in options]
        check_command("data", "show", str(folder / "facts.csv"), "--json", *arguments)


def check_command(*arguments: str) -> None:
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        patch.setattr(sys, "argv", ["hopwalk", *arguments])
        with contextlib.suppress(SystemExit):
            run()  # any other exception fails the test
    assert "Traceback" not in printed.getvalue()


@pytest.mark.parametrize(
    "data", ["x" * 300, "a/" + "x" * 300, "a\x00b", "\udcff", "./\udcff", "", " ", "/", "/dev/null", "facts.csv/x"]
)
@pytest.mark.parametrize("command", ["show", "check"])
def test_strange_paths_never_give_a_traceback(in_folder: Path, command: str, data: str):
    (in_folder / "facts.csv").write_bytes(b"a,b,c\n")
    check_command("data", command, data)


@pytest.mark.parametrize("out", ["facts.csv", "facts.csv/x", "/proc/x", "x" * 300])
@pytest.mark.parametrize("command", ["split", "prepare"])
def test_folders_that_cannot_be_written_never_give_a_traceback(in_folder: Path, command: str, out: str):
    (in_folder / "facts.csv").write_bytes(b"a,b,c\n")
    check_command("data", command, "facts.csv", "--out", out, "--force")


def test_a_file_name_that_is_not_utf8(in_folder: Path):
    name = os.fsdecode(b"\xff.tsv")
    (in_folder / name).write_bytes(b"a\tr\tb\n")
    assert facts_of(load(in_folder / name)) == {("a", "r", "b")}


@pytest.mark.parametrize("number", [1, 20_000])
def test_a_pipe_is_read_whole_or_refused_as_such(number: int):
    reading, writing = os.pipe()
    writer = threading.Thread(target=write_and_close, args=(writing, in_lines([(f"a{row}", "r", "b") for row in range(number)])))
    writer.start()
    try:
        assert len(load(Path(f"/dev/fd/{reading}")).facts) == number
    except HopwalkError as error:
        assert "empty" not in error.problem and "no facts" not in error.problem
    finally:
        os.close(reading)
        writer.join()


def write_and_close(descriptor: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
