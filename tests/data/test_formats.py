"""Folders, OpenKE, MINERVA, Parquet, RDF, and tables of readable names."""

import sys
from pathlib import Path

import polars as pl
import pytest

import hopwalk
from hopwalk.errors import DataError, MissingPackageError
from tests.support.helpers import facts_of, finding, load_text


def write(folder: Path, **files: str) -> Path:
    """Files by name, `__` for the dot."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


OPENKE = {
    "entity2id__txt": "3\nann\t0\nbob smith\t2\ncat\t1\n",
    "relation2id__txt": "1\nknows\t0\n",
    "train2id__txt": "2\n0 2 0\n2 1 0\n",
    "valid2id__txt": "1\n0 1 0\n",
}


class TestFolders:
    @pytest.mark.parametrize("valid", ["valid", "dev", "validation", "val"])
    def test_splits(self, tmp_path: Path, valid: str):
        write(tmp_path, train__tsv="a\tr\tb\nb\tr\ta\n", **{f"{valid}__tsv": "a\tr\ta\n"}, test__csv="b,r,b\n")
        dataset = hopwalk.load_dataset(tmp_path)
        assert facts_of(dataset, "train") == {("a", "r", "b"), ("b", "r", "a")}
        assert facts_of(dataset, "valid") == {("a", "r", "a")}
        assert facts_of(dataset, "test") == {("b", "r", "b")}
        assert not dataset.has_own_facts

    def test_salesforce_triples(self, tmp_path: Path):
        write(tmp_path, train__triples="a\tb\tr\n", dev__triples="b\ta\tr\n")
        dataset = hopwalk.load_dataset(tmp_path)
        assert (facts_of(dataset), facts_of(dataset, "valid")) == ({("a", "r", "b")}, {("b", "r", "a")})

    def test_minerva_graph_and_its_stated_inverses(self, tmp_path: Path):
        graph = "a\tr\tb\nb\tr_inv\ta\nb\tq\tc\nc\t_q\tb\nb\tr\tc\nc\tr_inv\tb\n"
        write(tmp_path, graph__txt=graph, train__txt="a\tr\tb\n", dev__txt="b\tr\tc\n")
        dataset = hopwalk.load_dataset(tmp_path)
        assert list(dataset.relations) == ["q", "r"]
        assert facts_of(dataset) == {("a", "r", "b"), ("b", "q", "c")}  # b r c is held out, and so is its inverse
        assert facts_of(dataset, "train") == {("a", "r", "b")}
        assert dataset.has_own_facts
        assert finding(dataset, "inverse-relations-folded").count == 3

    def test_names_alone_do_not_make_an_inverse(self, tmp_path: Path):
        dataset = load_text(tmp_path, "a\tr\tb\na\tr_inv\tc\nb\tr_inv\tc\n")
        assert list(dataset.relations) == ["r", "r_inv"]

    def test_inverses_are_kept_apart_when_said(self, tmp_path: Path):
        settings = hopwalk.load_settings(overrides=["read.fold_inverses=false"])
        (tmp_path / "facts.tsv").write_text("a\tr\tb\nb\tr_inv\ta\n")
        dataset = hopwalk.load_dataset(tmp_path / "facts.tsv", settings)
        assert list(dataset.relations) == ["r", "r_inv"]

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            ({}, "there is no train file"),
            ({"test__tsv": "a\tr\tb\n"}, "there is no train file"),
            ({"train__tsv": "a\tr\tb\n", "train__csv": "a,r,b\n"}, "more than one file could be the train split"),
            ({"train__tsv": "a\tr\tb\n", "valid__tsv": "a\tr\tb\n", "dev__tsv": "a\tr\tb\n"}, "more than one file"),
            ({"train__tsv": "a\tr\tb\n", "test__tsv": ""}, "the file is empty"),
        ],
    )
    def test_bad_folder(self, tmp_path: Path, files: dict[str, str], message: str):
        with pytest.raises(DataError, match=message):
            hopwalk.load_dataset(write(tmp_path, **files))

    def test_missing_path_suggests_a_neighbour(self, tmp_path: Path):
        (tmp_path / "facts.tsv").touch()
        with pytest.raises(DataError, match=r"Did you mean 'facts\.tsv'"):
            hopwalk.load_dataset(tmp_path / "fact.tsv")


def test_folder_formats_are_folders(tmp_path: Path):
    with pytest.raises(DataError, match="is a folder of files"):
        load_text(tmp_path, "a\tr\tb\n", format="openke")
    write(tmp_path, train__txt="a\tr\tb\n")
    with pytest.raises(DataError, match=r"there is no graph\.txt"):
        hopwalk.load_dataset(tmp_path, hopwalk.load_settings(overrides=["read.format=minerva"]))


class TestOpenKE:
    def test_ids_become_labels(self, tmp_path: Path):
        dataset = hopwalk.load_dataset(write(tmp_path, **OPENKE))
        assert facts_of(dataset) == {("ann", "knows", "bob smith"), ("bob smith", "knows", "cat")}
        assert facts_of(dataset, "valid") == {("ann", "knows", "cat")}

    @pytest.mark.parametrize(
        ("file", "text", "line", "message"),
        [
            ("train2id__txt", "1\n0 3 0\n", 2, "the tail id 3 is not in the table of 3 ids"),
            ("train2id__txt", "2\n0 1 0\n0 1 7\n", 3, "the relation id 7 is not in the table of 1 ids"),
            ("train2id__txt", "1\n0 -1 0\n", 2, "the tail id -1"),
            ("train2id__txt", "1\n0 x 0\n", 2, "column 2 should be a whole number, found 'x'"),
            ("train2id__txt", "1\n0 99999999999999999999 0\n", 2, "should be a whole number"),
            ("train2id__txt", "0 1 0\n", 1, "the first line is not a count"),
            ("train2id__txt", "", 1, "the first line is not a count"),
            ("train2id__txt", "0\n", None, "no facts to train on"),
            ("train2id__txt", "1\n0 1\n", 2, "expected 3 columns"),
            ("entity2id__txt", "2\nann\t0\nann\t1\n", None, "the label 'ann' stands there twice"),
            ("entity2id__txt", "2\nann\t0\nbob\t0\n", None, "the id 0 stands there twice"),
        ],
    )
    def test_bad_files(self, tmp_path: Path, file: str, text: str, line: int | None, message: str):
        with pytest.raises(DataError, match=message) as error:
            hopwalk.load_dataset(write(tmp_path, **{**OPENKE, file: text}))
        assert error.value.line == line

    def test_count_that_does_not_fit_is_a_warning(self, tmp_path: Path):
        dataset = hopwalk.load_dataset(write(tmp_path, **{**OPENKE, "train2id__txt": "5\n0 2 0\n2 1 0\n"}))
        assert finding(dataset, "count-mismatch").count == 3


class TestParquet:
    @pytest.mark.parametrize(
        "columns",
        [
            {"head": ["a"], "relation": ["r"], "tail": ["b"]},
            {"object": ["b"], "predicate": ["r"], "subject": ["a"], "score": [0.5]},
            {"x": ["a"], "y": ["r"], "z": ["b"]},
        ],
    )
    def test_columns(self, tmp_path: Path, columns: dict[str, list[str]]):
        pl.DataFrame(columns).write_parquet(tmp_path / "facts.parquet")
        assert facts_of(hopwalk.load_dataset(tmp_path / "facts.parquet")) == {("a", "r", "b")}

    def test_guessed_columns_are_told(self, tmp_path: Path):
        pl.DataFrame({"x": ["a"], "y": ["r"], "z": ["b"]}).write_parquet(tmp_path / "facts.parquet")
        found = finding(hopwalk.load_dataset(tmp_path / "facts.parquet"), "guessed-columns")
        assert "the columns x, y, z are taken for head, relation and tail" in found.message

    def test_whole_numbers_and_categories_are_labels(self, tmp_path: Path):
        frame = pl.DataFrame({"head": [7], "relation": ["r"], "tail": [8]}).cast({"relation": pl.Categorical})
        frame.write_parquet(tmp_path / "facts.parquet")
        assert facts_of(hopwalk.load_dataset(tmp_path / "facts.parquet")) == {("7", "r", "8")}

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"head": ["a", None], "relation": ["r", "r"], "tail": ["b", "b"]}, "row 2 has no head"),
            ({"head": ["a"], "relation": [""], "tail": ["b"]}, "row 1 has no relation"),
            ({"head": [0.5], "relation": ["r"], "tail": ["b"]}, "column 'head' holds Float64"),
            ({"head": ["a"], "tail": ["b"]}, "expected 3 columns"),
            ({"head": [], "relation": [], "tail": []}, "the file holds no facts"),
        ],
    )
    def test_bad_columns(self, tmp_path: Path, columns: dict[str, list[str]], message: str):
        pl.DataFrame(columns).write_parquet(tmp_path / "facts.parquet")
        with pytest.raises(DataError, match=message):
            hopwalk.load_dataset(tmp_path / "facts.parquet")


TURTLE = """
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:ann :knows :bob, _:b1 ; :age 7 ; rdfs:label "Anna"@de, "Ann"@en .
:bob rdfs:label "Bob \\"B\\"" .
"""


class TestRdf:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("facts.ttl", TURTLE),
            (
                "facts.nt",
                "<http://example.org/ann> <http://example.org/knows> <http://example.org/bob> .\n"
                "<http://example.org/ann> <http://example.org/knows> _:b1 .\n"
                '<http://example.org/ann> <http://example.org/age> "7" .\n'
                '<http://example.org/ann> <http://www.w3.org/2000/01/rdf-schema#label> "Ann" .\n'
                '<http://example.org/bob> <http://www.w3.org/2000/01/rdf-schema#label> "Bob \\"B\\"" .\n',
            ),
        ],
    )
    def test_facts_and_names(self, tmp_path: Path, name: str, text: str):
        dataset = load_text(tmp_path, text, name)
        ann, bob, knows = (f"http://example.org/{word}" for word in ("ann", "bob", "knows"))
        assert (ann, knows, bob) in facts_of(dataset)
        assert len(dataset.facts) == 2
        assert dataset.entities.name(dataset.entities.id(ann)) == "Ann"
        assert dataset.entities.name(dataset.entities.id(bob)) == 'Bob "B"'
        assert finding(dataset, "literals").count == 1

    def test_nodes_without_names(self, tmp_path: Path):
        dataset = load_text(tmp_path, "_:unnamed1 <http://p> <http://a> .\n[] <http://p> <http://b> .\n", "facts.ttl")
        assert list(dataset.entities) == ["_:unnamed facts 1", "_:unnamed1", "http://a", "http://b"]

    def test_xml(self, tmp_path: Path):
        text = (
            '<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">'
            '<rdf:Description rdf:about="http://a"><x:r rdf:resource="http://b"/></rdf:Description></rdf:RDF>'
        )
        for name, read in (("facts.owl", {}), ("facts.data", {"format": "rdf"})):
            assert facts_of(load_text(tmp_path, text, name, **read)) == {("http://a", "http://x/r", "http://b")}

    def test_bad_rdf_names_the_line(self, tmp_path: Path):
        with pytest.raises(DataError, match="not valid RDF") as error:
            load_text(tmp_path, "<http://a> <http://r> <http://b> .\nnonsense\n", "facts.nt")
        assert error.value.line == 2

    def test_only_values(self, tmp_path: Path):
        with pytest.raises(DataError, match="no facts between entities"):
            load_text(tmp_path, '<http://a> <http://r> "7" .\n', "facts.nt")

    def test_without_pyoxigraph(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "pyoxigraph", None)
        with pytest.raises(MissingPackageError, match=r"pip install pyoxigraph"):
            load_text(tmp_path, TURTLE, "facts.ttl")


class TestNames:
    def test_beside_a_folder_and_as_said(self, tmp_path: Path):
        write(tmp_path, train__tsv="a\tr\tb\n", labels__tsv="a\tAlpha Centauri\nr\tis near\nz\tunused\n")
        dataset = hopwalk.load_dataset(tmp_path)
        assert [dataset.entities.name(0), dataset.entities.name(1), dataset.relations.name(0)] == [
            "Alpha Centauri",
            "b",
            "is near",
        ]
        (tmp_path / "other.tsv").write_text("b\tBeta\n")
        said = hopwalk.load_dataset(
            tmp_path / "train.tsv", hopwalk.load_settings(overrides=[f"read.labels={tmp_path}/other.tsv"])
        )
        assert said.entities.name(1) == "Beta"
        assert finding(dataset, "unused-names").examples == ("z",)

    @pytest.mark.parametrize(
        ("text", "message"),
        [("", "is empty"), ("a\n", "2 columns"), ("a\tx\na\ty\n", "named twice"), ("a\t\n", "column 2 is empty")],
    )
    def test_bad_names(self, tmp_path: Path, text: str, message: str):
        with pytest.raises(DataError, match=message):
            hopwalk.load_dataset(write(tmp_path, train__tsv="a\tr\tb\n", labels__tsv=text))
