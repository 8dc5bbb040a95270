"""The benchmark of scorers: it runs, and both sides do the same work; speed is not tested."""

import gc
import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import torch
from benchmarks.scorers import Case, Way, Work

import hopwalk
from benchmarks import scorers
from hopwalk.scorers.models import build_scorer

CASE = Case("umls", "complex", "modern", threads=1, is_quick=True)


@dataclass(frozen=True)
class NoMachine:
    source_sha256: str = "0"


@pytest.fixture
def restored_state() -> Iterator[None]:
    """The number of threads and the collection of garbage are as before afterwards."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    gc.unfreeze()


def test_both_sides_get_the_same_queries_as_with_inverse_triples():
    from pykeen.triples import CoreTriplesFactory, LCWAInstances

    dataset = hopwalk.load_dataset("umls")
    work = Work.of(Case("umls", "complex", "modern", threads=1, is_quick=False))
    ours, theirs = work.queries(), LCWAInstances.from_triples_factory(work.factory())
    facts = torch.from_numpy(dataset.facts.array()).long()
    whole = CoreTriplesFactory(facts, num_entities=135, num_relations=46, create_inverse_triples=True)
    assert len(ours) == len(theirs) == 3 * 512  # the full batches of 1,560 queries
    assert len(LCWAInstances.from_triples_factory(whole)) == 1560
    assert len(ours.answers) == theirs.compressed.sum()
    place = {tuple(pair): row for row, pair in enumerate(theirs.pairs.tolist())}
    for number in (0, 700, 1535):
        answers = ours.answers[ours.offsets[number] : ours.offsets[number + 1]]
        row = place[int(ours.heads[number]), int(ours.relations[number])]
        assert sorted(answers.tolist()) == theirs.compressed[row].indices.tolist()


@pytest.mark.parametrize("model", ["complex", "distmult", "conve"])
def test_models_have_the_same_size(model):
    settings = Case("umls", model, "paper", threads=1, is_quick=True).settings()
    theirs = scorers.pykeen_model(settings, Work.of(CASE).factory())
    ours = build_scorer(135, 46, settings)
    assert sum(values.numel() for values in theirs.parameters()) == sum(values.numel() for values in ours.parameters())


def test_operations_are_counted():
    complex_, conve = (Case("umls", model, "paper", threads=1, is_quick=True).settings() for model in ("complex", "conve"))
    assert [count for count, _ in scorers.products(complex_, 10).values()] == [2 * 512 * 10 * 400] * 3
    counts = {name: count for name, (count, _) in scorers.products(conve, 10).items()}
    assert counts["[E,D]@[D,Q]"] == 2 * 512 * 10 * 200
    assert counts["convolution"] == 6 * 512 * 32 * 18 * 18 * 9
    assert counts["full layer"] == 6 * 512 * (32 * 18 * 18) * 200


def start_method() -> str:
    return multiprocessing.get_start_method()


def test_pykeen_starts_processes_by_the_method_of_the_platform():
    with scorers.fresh_process() as process:
        assert process.submit(start_method).result() == start_method()


def test_ways_of_pykeen_fit_into_memory():
    settings = {model: Case("umls", model, "paper", threads=1, is_quick=True).settings() for model in scorers.SCORED_TAILS}
    assert scorers.ways(settings["complex"], 75_000) == [Way(), Way(num_workers=1)]
    assert scorers.ways(settings["distmult"], 75_000) == [Way(sub_batch_size=35), Way(sub_batch_size=1)]
    assert scorers.ways(settings["conve"], 75_000) == [Way(slice_size=5242)]
    assert Way() in scorers.ways(settings["distmult"], 135)


def test_quick_run_writes_all_its_numbers(tmp_path, monkeypatch, capsys, restored_state):
    monkeypatch.setattr(scorers, "fresh_process", lambda: ThreadPoolExecutor(max_workers=1))
    monkeypatch.setattr(scorers, "describe_machine", NoMachine)
    monkeypatch.setattr(scorers, "source_sha256", lambda: "0")
    monkeypatch.setattr(scorers, "MANY_ENTITIES", 100)
    monkeypatch.setattr(scorers, "SAMPLED_TAILS", 20)
    scorers.main(["--quick", "--data", "umls", "--models", "complex", "--out", str(tmp_path / "speed.json")])
    results = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    assert results.keys() == {"command", "about", "torch", "pykeen", "machine", "measured"}
    assert [case["recipe"] for case in results["measured"]] == ["paper", "modern"]
    for case in results["measured"]:
        assert case["queries"] == 512
        for side in ("hopwalk", "pykeen", "hopwalk_sampled_tails"):
            (turn,) = case[side]["turns"]
            assert case[side]["examples_per_second"]["best"] == pytest.approx(case["examples"] / turn["seconds"])
            assert min(turn["mm_gflops"]) > 0
            assert turn["peak_memory"] > 0
        assert case["useful_work"]["share_of_shapes"]["median"] > 0
    assert "umls: 135 entities, epochs of 512 queries" in capsys.readouterr().out
