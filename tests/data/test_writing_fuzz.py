"""Any labels survive writing and reading; any options and paths give no traceback."""

import contextlib
import csv
import gzip
import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hopwalk import api
from hopwalk.cli.main import run
from hopwalk.data.statistics import statistics
from hopwalk.data.writing import write_folder
from hopwalk.errors import HopwalkError
from tests.support.fuzzing import (
    AS_GIVEN,
    LABELS,
    MINERVA,
    ONE_LINE,
    cases,
    check_round_trip,
    damaged,
    facts_with,
    in_lines,
    load,
    load_files,
    new_folder,
    parquet,
)
from tests.support.helpers import FAMILY, Fact, facts_of


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


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a prepared data set."""
    folder = tmp_path_factory.mktemp("prepared")
    dataset = load_files(folder, MINERVA)
    return api.prepare(dataset, folder / "whole")


def use(folder: Path) -> None:
    """Use all parts of a prepared folder."""
    dataset = api.load_dataset(folder)
    graph = api.graph_of(dataset)
    for vocabulary in (dataset.entities, dataset.relations):
        assert len([vocabulary.name(id_) for id_ in range(len(vocabulary))]) == len(vocabulary)
        assert all(vocabulary.id(label) == id_ for id_, label in enumerate(vocabulary))
    for entity_id in range(graph.num_entities):
        relations, tails = graph.edges_from(entity_id)
        assert (tails[-1], relations[-1]) == (entity_id, graph.relation_ids.stay_id)
    assert statistics(dataset).fingerprint
    api.check(dataset)
    dataset.labels_of(dataset.all_facts())
    assert repr(dataset) and repr(graph)


@cases(400)
@given(data=st.data())
def test_a_damaged_saved_file_is_refused_or_can_be_used(prepared: Path, data: st.DataObject):
    whole = prepared.read_bytes()
    with new_folder() as folder:
        (folder / prepared.name).write_bytes(data.draw(st.one_of(damaged(whole), flipped(whole))))
        try:
            use(folder)
        except HopwalkError as error:
            assert error.problem


@st.composite
def flipped(draw: st.DrawFn, whole: bytes) -> bytes:
    """The content with one bit flipped."""
    bit = draw(st.integers(0, 8 * len(whole) - 1))
    return whole[: bit // 8] + bytes([whole[bit // 8] ^ (1 << bit % 8)]) + whole[bit // 8 + 1 :]


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
def test_a_pipe_is_read_completely_or_refused(number: int):
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
