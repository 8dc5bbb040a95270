"""The benchmark of reading data and building graphs: it runs and writes all its numbers; speed is not tested."""

import json

import pytest
from benchmarks.machine import PROJECT
from benchmarks.results import load_results

from benchmarks import ingest
from hopwalk.api import load_dataset
from hopwalk.data import catalog
from hopwalk.paper.source import source_sha256


def test_source_hash_does_not_change_by_itself():
    assert source_sha256() == source_sha256()


def test_timed_stages_wrap_the_real_functions_and_restore_them():
    original = catalog.load
    with ingest.timed_stages({"load": "hopwalk.data.catalog.load"}) as timings:
        assert catalog.load is not original
        load_dataset("umls")
    assert catalog.load is original
    assert timings["load"].seconds > 0
    assert timings["load"].peak_memory_bytes > 0


def test_small_run_writes_all_its_numbers(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("HOPWALK_MIRROR", raising=False)
    ingest.main(["--small", "--out", str(tmp_path / "ingest.json")])
    results = json.loads((tmp_path / "ingest.json").read_text(encoding="utf-8"))
    assert results.keys() == {"command", "seed", "repeats", "memory_limit_bytes", "machine", "generator", "measured"}
    assert {"cpu", "cores", "memory_bytes", "sgemm_gflops", "commit", "date", "python", "libraries"} <= results["machine"].keys()
    (power_law,) = results["measured"]
    assert power_law["triples_read"] == ingest.SMALL_TRIPLES
    assert power_law["entities"] == ingest.SMALL_ENTITIES
    assert power_law["polars_read"]["triples_per_second"] > 0
    hopwalk = power_law["hopwalk"]
    assert hopwalk["seconds"] == pytest.approx(hopwalk["dataset"]["seconds"] + hopwalk["graph"]["seconds"])
    for part, stages in (("dataset", ingest.DATASET_STAGES), ("graph", ingest.GRAPH_STAGES)):
        assert hopwalk[part]["stages"].keys() == {*stages, "the rest"}
        assert all(hopwalk[part]["stages"][stage]["seconds"] > 0 for stage in stages), part
    assert 0 < hopwalk["peak_memory_bytes"] < results["memory_limit_bytes"]
    assert hopwalk["save_dataset"]["seconds"] > 0 and hopwalk["open_dataset"]["seconds"] > 0
    assert power_law["saved_bytes"] > 0
    assert power_law["known_answers"]["contains_per_second"] > 0
    assert power_law["known_answers"]["queries_per_second"] > 0
    printed = capsys.readouterr().out
    assert "file → graph" in printed
    assert "FB15k-237 is skipped" in printed
    assert str(tmp_path) not in json.dumps(results)


def test_the_page_shows_the_results():
    results = load_results(PROJECT / "results" / "ingest.json")
    page = (PROJECT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    remedy = "put what `python -m benchmarks.ingest --show results/ingest.json` prints under Results, and look through the prose"
    assert ingest.markdown_of(results).strip() in page, remedy
    assert results["machine"]["commit"][:7] in page
    assert not results["machine"]["has_uncommitted_source"]
    for measured in results["measured"]:
        timings = [measured["hopwalk"], *(measured["hopwalk"][key] for key in ingest.SAVING if key in measured["hopwalk"])]
        assert max(timing["peak_memory_bytes"] for timing in timings) < ingest.MEMORY_LIMIT_BYTES
