"""Thousands of random files of every format: a data set that survives a round trip, or one of our own errors."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwalk.data.writing import write_folder
from hopwalk.errors import DataError, HopwalkError
from tests.support.fuzzing import (
    AS_GIVEN,
    MINERVA,
    N_TRIPLES,
    OPENKE,
    PIECES,
    TURTLE,
    WHOLE_FILES,
    cases,
    check_contract,
    check_round_trip,
    damaged,
    in_lines,
    load,
    load_files,
    new_folder,
    parquet,
    texts,
)
from tests.support.helpers import FAMILY, dataset_of, facts_of, load_text


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
        expected = {(entities[int(head)], relations[int(relation)], entities[int(tail)]) for head, tail, relation in rows}
        held_out = facts_of(dataset, "valid") | facts_of(dataset, "test")
        assert facts_of(dataset) == expected - held_out


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


def test_an_openke_table_with_fewer_lines_than_its_first_line_says(tmp_path: Path):
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


def test_folding_inverse_relations_twice_changes_nothing(tmp_path: Path):
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
