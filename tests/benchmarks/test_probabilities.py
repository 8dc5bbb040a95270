"""The benchmark of probabilities: both directions agree, whatever the model has learnt."""

from pathlib import Path

import hopwalk
from benchmarks import probabilities
from tests.support.villages import propagation_of, village_of


def test_both_directions_have_one_probability(tmp_path: Path):
    run = hopwalk.train_scorer(village_of(40), propagation_of(queries=1200), out=tmp_path / "run")
    found = probabilities.measure(run.path, num_queries=20, num_candidates=1000)
    assert found["disagreement"] < 1e-4 < found["disagreement_before"]
    assert 0 <= found["on_test"]["error"] < 0.2 and found["tails_as_asked"] > 0.3
    shown = probabilities.table({"village": found})
    assert len(shown) == 2 and len(shown[1]) == len(probabilities.TITLES)
