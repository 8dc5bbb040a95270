"""Parquet files."""

from pathlib import Path

import polars as pl
import pytest

import hopwalk
from hopwalk.errors import DataError
from tests.support.helpers import facts_of, finding


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

    def test_a_guess_of_the_columns_is_a_warning(self, tmp_path: Path):
        pl.DataFrame({"x": ["a"], "y": ["r"], "z": ["b"]}).write_parquet(tmp_path / "facts.parquet")
        found = finding(hopwalk.load_dataset(tmp_path / "facts.parquet"), "guessed-columns")
        assert "the columns x, y, z are read as head, relation and tail" in found.message

    def test_whole_numbers_and_categories_are_labels(self, tmp_path: Path):
        frame = pl.DataFrame({"head": [7], "relation": ["r"], "tail": [8]}).cast({"relation": pl.Categorical})
        frame.write_parquet(tmp_path / "facts.parquet")
        assert facts_of(hopwalk.load_dataset(tmp_path / "facts.parquet")) == {("7", "r", "8")}

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"head": ["a", None], "relation": ["r", "r"], "tail": ["b", "b"]}, "row 2 has no head"),
            ({"head": ["a"], "relation": [""], "tail": ["b"]}, "row 1 has no relation"),
            ({"head": [0.5], "relation": ["r"], "tail": ["b"]}, "column 'head' is not valid: it contains Float64, not text"),
            ({"head": ["a"], "tail": ["b"]}, "expected 3 columns"),
            ({"head": [], "relation": [], "tail": []}, "the file has no facts"),
        ],
    )
    def test_bad_columns(self, tmp_path: Path, columns: dict[str, list[str]], message: str):
        pl.DataFrame(columns).write_parquet(tmp_path / "facts.parquet")
        with pytest.raises(DataError, match=message):
            hopwalk.load_dataset(tmp_path / "facts.parquet")

    def test_a_complete_family_of_names_decides(self, tmp_path: Path):
        columns = {"source": ["web"], "Subject": ["a"], "Predicate": ["r"], "Object": ["b"], "confidence": [0.9]}
        pl.DataFrame(columns).write_parquet(tmp_path / "facts.parquet")
        dataset = hopwalk.load_dataset(tmp_path / "facts.parquet")
        assert facts_of(dataset) == {("a", "r", "b")}
        assert "the columns Subject, Predicate, Object, not source" in finding(dataset, "chosen-columns").message

    def test_an_ambiguous_schema(self, tmp_path: Path):
        pl.DataFrame({"subject": ["a"], "source": ["a"], "relation": ["r"], "tail": ["b"]}).write_parquet(
            tmp_path / "facts.parquet"
        )
        with pytest.raises(DataError, match="the header is ambiguous: subject or source may be the head"):
            hopwalk.load_dataset(tmp_path / "facts.parquet")
