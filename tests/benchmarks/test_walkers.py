"""The benchmarks of walkers: they run and give all their numbers; speed is not tested."""

import pytest
import torch

from benchmarks import beams, plain_walker, walkers
from hopwalk.api import load_settings
from hopwalk.learning.run import Run


def test_both_engines_are_measured_on_one_data_set(monkeypatch: pytest.MonkeyPatch):
    small = ["walker.recipe=paper", "walker.batch_size=4", "walker.rollouts=3", "walk.beam=8"]
    monkeypatch.setattr(walkers, "paper_settings", lambda data: load_settings(data, overrides=small))
    threads = torch.get_num_threads()
    try:
        ours = walkers.measure_ours("umls", threads=1, minibatches=1, num_queries=4)
        plain = walkers.measure_plain("umls", threads=1, minibatches=1, num_queries=1)
    finally:
        torch.set_num_threads(threads)
    for side in (ours, plain):
        assert min(side.minibatches_per_second, side.queries_per_second, side.peak_memory_bytes) > 0
    assert 0 < ours.share_of_product < 1.5


def test_beams_are_measured(trained_walker: Run):
    narrow, _, wide, summed = beams.measure_run(trained_walker.path, [1, 32], most=0)
    assert [(row["beam"], row["pooling"]) for row in (narrow, wide, summed)] == [(1, "max"), (32, "max"), (32, "sum")]
    assert trained_walker.settings.walker.pooling == "sum"
    assert summed["valid_mrr"] == trained_walker.about["valid_mrr"]
    assert wide["unreached"] < narrow["unreached"]


def test_the_plain_walker_is_timed(capsys: pytest.CaptureFixture[str]):
    plain_walker.main(["umls", "--bucket-interval", "10", "--minibatches", "1", "--queries", "2", "--decode", "1"])
    minibatch, decoding = capsys.readouterr().out.splitlines()
    assert minibatch.startswith("minibatch of 2: ") and decoding.startswith("decoding of 1: ")
