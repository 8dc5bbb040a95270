"""Power-law graphs: their sizes, their frequencies, and their seed."""

from pathlib import Path

import polars as pl
import pytest
from benchmarks.powerlaw import PowerLawGraph, write_power_law_graph


def read(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, separator="\t", has_header=False, new_columns=["head", "relation", "tail"])


def test_generated_graph_has_the_given_sizes(tmp_path):
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
