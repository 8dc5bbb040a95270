"""What the fuzz tests share: strategies that make good and bad input, and the round trip every data set must survive."""

import contextlib
import gzip
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import hopwalk
from hopwalk.config.settings import Settings, changed
from hopwalk.data import loading
from hopwalk.data.dataset import Dataset
from hopwalk.data.writing import write_folder
from hopwalk.errors import HopwalkError
from tests.support.helpers import FAMILY, Fact

ROLES = ("head", "relation", "tail")
AS_GIVEN = {"header": "no", "fold_inverses": False}  # no line taken for a header, no relation for an inverse


def cases(number: int) -> settings:
    """So many cases, the same ones in every run."""
    return settings(max_examples=number, derandomize=True, suppress_health_check=list(HealthCheck))


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
    dataset.save(folder / "saved" / loading.PREPARED)
    assert load(folder / "saved").fingerprint == dataset.fingerprint
    write_folder(dataset, folder / "written")
    assert load(folder / "written", fold_inverses=False).fingerprint == dataset.fingerprint


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
