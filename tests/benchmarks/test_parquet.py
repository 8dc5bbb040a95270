"""The benchmark from Parquet to predictions: every stage is measured, on a small graph; speed is not tested."""

import os
from pathlib import Path

import pytest
import torch

from benchmarks import parquet, scale


def test_every_stage_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scale, "NUM_DEV", 50)
    for name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))  # as it was, afterwards
    num_facts = parquet.write_graph(tmp_path / "graph", 2000)
    assert len(list((tmp_path / "graph" / "train").iterdir())) == parquet.NUM_FILES
    threads = torch.get_num_threads()
    small = ("propagation.width=8", "propagation.attention_width=4", "propagation.evaluations=1")
    try:
        found = parquet.measure(tmp_path, 320, 5, 40, *small)
    finally:
        torch.set_num_threads(threads)
    assert found["facts"] == num_facts and found["asked"] == 5
    assert 40 <= found["completed"] < found["to_complete"]
    assert (tmp_path / "work" / "new.parquet.progress.json").exists()  # it could be resumed
    rows = parquet.table(found)
    assert [row[0] for row in rows[1:]] == ["read", "train", "load", "ask", "complete"]
    assert {len(row) for row in rows} == {6}


def test_the_table_of_the_page_is_that_of_the_results():
    page = parquet.PAGE.read_text(encoding="utf-8")
    assert "| read | 19,981,820 facts |" in page and parquet.with_tables(page) == page
