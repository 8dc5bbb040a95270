"""Folders with many Parquet files, as Spark and others write them."""

from pathlib import Path

import polars as pl
import pytest

import hopwalk
from hopwalk.config.settings import Settings, changed
from hopwalk.data.parquet import files_of
from hopwalk.errors import DataError
from tests.support.helpers import facts_of


def write(
    path: Path, *facts: tuple[str | int, str, str | int | None], names: tuple[str, ...] = ("head", "relation", "tail")
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(list(facts), schema=list(names), orient="row").write_parquet(path)


A, B, C = ("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a")


def test_all_files_are_read(tmp_path: Path):
    folder = tmp_path / "facts.parquet"
    write(folder / "part-0.parquet", A)
    write(folder / "part-1.parquet", B, A)
    write(folder / "deeper" / "part-2.parquet", C)
    (folder / "_SUCCESS").write_text("")
    (folder / "_temporary").mkdir()
    write(folder / "_temporary" / "half.parquet", ("x", "x", "x"))
    (folder / ".part-0.parquet.crc").write_text("")
    (folder / ".hidden.parquet").write_text("")
    dataset = hopwalk.load_dataset(folder)
    assert facts_of(dataset) == {A, B, C} and dataset.name == "facts.parquet"
    assert [path.name for path in files_of(folder)] == ["part-2.parquet", "part-0.parquet", "part-1.parquet"]


def test_columns_in_the_names_of_folders(tmp_path: Path):
    names = ("subject", "object")
    for relation, pairs in (("knows%20well", [("a", "b")]), ("likes", [("b", "c"), ("c", "a")])):
        path = tmp_path / "graph" / f"predicate={relation}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        pl.DataFrame(pairs, schema=list(names), orient="row").write_parquet(path)
    assert facts_of(hopwalk.load_dataset(tmp_path / "graph")) == {
        ("a", "knows well", "b"),
        ("b", "likes", "c"),
        ("c", "likes", "a"),
    }
    write(tmp_path / "graph" / "predicate=__HIVE_DEFAULT_PARTITION__" / "part-0.parquet", A, names=("subject", "x", "object"))
    with pytest.raises(DataError, match="row 1 has no relation") as error:
        hopwalk.load_dataset(tmp_path / "graph")
    assert "__HIVE_DEFAULT_PARTITION__" in str(error.value.path)


def test_splits_that_are_folders(tmp_path: Path):
    write(tmp_path / "g" / "train" / "0.parquet", A, B)
    write(tmp_path / "g" / "train" / "1.parquet", C)
    write(tmp_path / "g" / "test.parquet" / "part-0.parquet", ("a", "s", "c"))
    write(tmp_path / "g" / "valid.parquet", ("c", "r", "b"))
    dataset = hopwalk.load_dataset(tmp_path / "g")
    assert [len(part) for part in dataset.splits.values()] == [3, 1, 1]


def test_types_may_differ_between_files_and_files_may_be_empty(tmp_path: Path):
    write(tmp_path / "g" / "0.parquet", (1, "r", 2))
    write(tmp_path / "g" / "1.parquet", ("x", "r", "1"))
    pl.DataFrame(schema={"head": pl.String, "relation": pl.String, "tail": pl.String}).write_parquet(tmp_path / "g" / "2.parquet")
    assert facts_of(hopwalk.load_dataset(tmp_path / "g")) == {("1", "r", "2"), ("x", "r", "1")}


class TestMistakes:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for number in range(3):
            write(tmp_path / "g" / f"{number}.parquet", A, B, C)
        return tmp_path / "g"

    def test_half_a_file(self, folder: Path):
        path = folder / "1.parquet"
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(DataError, match="the Parquet file is not valid") as error:
            hopwalk.load_dataset(folder)
        assert error.value.path == str(path)

    def test_a_file_with_other_columns(self, folder: Path):
        write(folder / "2.parquet", A, names=("head", "relation", "to"))
        with pytest.raises(DataError, match="there is no column 'tail', which the first file has") as error:
            hopwalk.load_dataset(folder)
        assert error.value.path == str(folder / "2.parquet")

    def test_a_missing_value(self, folder: Path):
        write(folder / "1.parquet", A, ("a", "r", None))
        with pytest.raises(DataError, match=r"row 2 has no tail") as error:
            hopwalk.load_dataset(folder)
        assert error.value.path == str(folder / "1.parquet")

    def test_all_files_together_are_limited(self, tmp_path: Path):
        for number in range(3):
            write(tmp_path / "g" / f"{number}.parquet", *((f"a long name for an entity {i}", "r", "b") for i in range(20_000)))
        with pytest.raises(DataError, match="the columns have more than 1 MB when they are expanded"):
            hopwalk.load_dataset(tmp_path / "g", changed(Settings(), {"read.expanded_mb": 1}))

    def test_a_split_beside_other_files(self, folder: Path):
        write(folder / "test.parquet", A)
        with pytest.raises(DataError, match="the folder has no train file"):
            hopwalk.load_dataset(folder)

    def test_two_train_splits(self, folder: Path):
        write(folder / "train.parquet", A)
        write(folder / "train" / "0.parquet", A)
        with pytest.raises(DataError, match=r"several files can be the train split: train, train\.parquet"):
            hopwalk.load_dataset(folder)
