"""The benchmarks run and say what they should; how fast they are is not tested."""

import json
from pathlib import Path

import polars as pl
import pytest
from benchmarks.machine import PROJECT
from benchmarks.powerlaw import PowerLawGraph, write_power_law_graph

from benchmarks import asking, ingest
from hopwalk.api import load_dataset
from hopwalk.data import dataset
from hopwalk.paper.source import source_sha256


def read(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, separator="\t", has_header=False, new_columns=["head", "relation", "tail"])


def test_generated_graph_has_the_asked_sizes(tmp_path):
    write_power_law_graph(tmp_path / "graph.tsv", PowerLawGraph(num_triples=20_000, num_entities=5_000, num_relations=30))
    triples = read(tmp_path / "graph.tsv")
    assert len(triples) == 20_000
    assert pl.concat([triples["head"], triples["tail"]]).n_unique() == 5_000
    assert triples["relation"].n_unique() == 30
    assert triples.n_unique() > 0.95 * len(triples)


def test_generated_graph_spans_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.powerlaw.CHUNK_TRIPLES", 999)
    write_power_law_graph(tmp_path / "graph.tsv", PowerLawGraph(num_triples=5_000, num_entities=5_000))
    triples = read(tmp_path / "graph.tsv")
    assert len(triples) == 5_000
    assert triples["head"].n_unique() == 5_000  # as many facts as entities: each is a head once


def test_frequencies_follow_the_power_law(tmp_path):
    graph = PowerLawGraph(num_triples=100_000, num_entities=1_000, num_relations=10, tail_exponent=1.0)
    write_power_law_graph(tmp_path / "graph.tsv", graph)
    counts = read(tmp_path / "graph.tsv")["tail"].value_counts(sort=True)["count"]
    # Shares of log((k + 1) / k) / log(1001): the first tail has 10.0 % of the facts, the tenth 1.4 %.
    assert counts[0] / 100_000 == pytest.approx(0.100, abs=0.005)
    assert counts[9] / 100_000 == pytest.approx(0.014, abs=0.002)


def test_same_seed_gives_the_same_file(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_power_law_graph(tmp_path / name, PowerLawGraph(2_000, 500, seed=seed))
    first, again, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == again
    assert first != other


def test_impossible_graph_is_refused():
    with pytest.raises(ValueError, match="no fewer triples than entities"):
        PowerLawGraph(num_triples=10, num_entities=11)


def test_source_hash_does_not_change_by_itself():
    assert source_sha256() == source_sha256()


def test_timed_stages_see_the_real_functions_and_put_them_back():
    original = dataset._distinct
    with ingest.timed_stages({"distinct": "hopwalk.data.dataset._distinct"}) as timings:
        assert dataset._distinct is not original
        load_dataset("umls")
    assert dataset._distinct is original
    assert timings["distinct"].seconds > 0
    assert timings["distinct"].peak_memory_bytes > 0


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
    assert power_law["known_answers"]["contains_per_second"] > 0
    printed = capsys.readouterr().out
    assert "file → graph" in printed
    assert "FB15k-237 is skipped" in printed
    assert str(tmp_path) not in json.dumps(results)


def test_the_page_shows_the_results():
    results = json.loads((PROJECT / "results" / "ingest.json").read_text(encoding="utf-8"))
    page = (PROJECT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    remedy = "put what `python -m benchmarks.ingest --show results/ingest.json` prints under Results, and look through the prose"
    assert ingest.markdown_of(results).strip() in page, remedy
    assert results["machine"]["commit"][:7] in page
    assert not results["machine"]["has_uncommitted_source"]
    assert max(measured["hopwalk"]["save"]["peak_memory_bytes"] for measured in results["measured"]) < ingest.MEMORY_LIMIT_BYTES


# Asking


def test_asking_is_measured_and_put_into_the_page(village_run: Path, tmp_path: Path):
    row = asking.throughput(village_run, num_queries=20, repeats=1)
    assert 5 < row["questions"] <= 20 and row["beam"] == 32 and row["together_per_second"] > 0 and row["same_answers"] > 0.9
    stages = asking.cold_start(village_run, ("child 0", "uncle"), repeats=1)
    assert set(stages) == {*asking.STAGES} and min(stages.values()) >= 0
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- asking: cold -->\nstale\n<!-- end -->\nbetween\n<!-- asking: throughput -->\n<!-- end -->\nafter\n"
    )
    asking.fill_in(page, {"cold": {"village": stages}, "throughput": {"village": row}})
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "stale" not in text and text.count("| village |") == 2


def test_the_page_has_places_for_the_tables_of_asking():
    text = asking.PAGE.read_text(encoding="utf-8")
    assert all(text.count(f"<!-- asking: {name} -->") == 1 for name in ("cold", "throughput"))
