"""Folders of split files, MINERVA's format, and tables of readable names."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk.errors import DataError
from tests.support.helpers import facts_of, finding, load_text


def write(folder: Path, **files: str) -> Path:
    """Files by name, `__` for the dot."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


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

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            ({}, "the folder has no train file"),
            ({"test__tsv": "a\tr\tb\n"}, "the folder has no train file"),
            ({"train__tsv": "a\tr\tb\n", "train__csv": "a,r,b\n"}, "several files can be the train split"),
            (
                {"train__tsv": "a\tr\tb\n", "valid__tsv": "a\tr\tb\n", "dev__tsv": "a\tr\tb\n"},
                "several files can be the valid split",
            ),
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
    with pytest.raises(DataError, match=r"read\.format = 'openke' is not valid for a file"):
        load_text(tmp_path, "a\tr\tb\n", format="openke")
    write(tmp_path, train__txt="a\tr\tb\n")
    with pytest.raises(DataError, match=r"the folder has no graph\.txt\. Set read\.format = \"auto\""):
        hopwalk.load_dataset(tmp_path, hopwalk.load_settings(overrides=["read.format=minerva"]))


class TestNames:
    def test_in_the_folder_and_from_settings(self, tmp_path: Path):
        write(tmp_path, train__tsv="a\tr\tb\n", labels__tsv="a\tAlpha Centauri\nr\tis near\nz\tunused\n")
        dataset = hopwalk.load_dataset(tmp_path)
        assert [dataset.entities.name(0), dataset.entities.name(1), dataset.relations.name(0)] == [
            "Alpha Centauri",
            "b",
            "is near",
        ]
        (tmp_path / "other.tsv").write_text("b\tBeta\n")
        named = hopwalk.load_dataset(
            tmp_path / "train.tsv", hopwalk.load_settings(overrides=[f"read.labels={tmp_path}/other.tsv"])
        )
        assert named.entities.name(1) == "Beta"
        assert finding(dataset, "unused-names").examples == ("z",)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty"),
            ("a\n", "2 columns"),
            ("a\tx\na\ty\n", "the label 'a' has more than one name"),
            ("a\t\n", "column 2 is empty"),
        ],
    )
    def test_bad_names(self, tmp_path: Path, text: str, message: str):
        with pytest.raises(DataError, match=message):
            hopwalk.load_dataset(write(tmp_path, train__tsv="a\tr\tb\n", labels__tsv=text))
