"""The walks behind a score: the planted rule is found, and without its edges the score falls."""

import numpy as np
import pytest

from hopwalk import api
from hopwalk.propagation.model import EdgeGradients
from hopwalk.propagation.paths import best_paths, edges_of_path, paths_behind
from hopwalk.propagation.scorer import PropagationScorer
from tests.propagation.test_training import tiny
from tests.support.villages import VILLAGE

NOTHING = np.empty(0, dtype=np.int64)


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> PropagationScorer:
    run = api.train_scorer(VILLAGE, tiny(), out=tmp_path_factory.mktemp("paths") / "run")
    loaded = api.load_scorer(run.path)
    assert isinstance(loaded, PropagationScorer)
    return loaded


def test_the_planted_rule_is_the_reason(scorer: PropagationScorer):
    names, facts = [VILLAGE.relations[id_] for id_ in range(len(VILLAGE.relations))], VILLAGE.test
    rules = []
    for head, relation, tail in facts.array()[:12].tolist():
        score, paths = paths_behind(scorer, head, relation, tail, num_paths=3, hidden=NOTHING)
        assert paths and paths[0].drop == max(path.drop for path in paths) and score > 0
        assert all(path.steps[-1][1] == tail for path in paths)
        rules.append([names[step] if step < len(names) else f"{names[step - len(names)]}⁻¹" for step, _ in paths[0].steps])
    assert rules.count(["mother", "brother"]) >= 10


def test_a_path_is_taken_away_in_both_directions(scorer: PropagationScorer):
    head, relation, tail = VILLAGE.facts.array()[0].tolist()
    edges = edges_of_path(scorer, head, ((relation, tail),))
    graph = scorer.engine.graph
    assert len(edges) == 2 and {int(graph.tails[edge]) for edge in edges} == {head, tail}


def test_an_entity_out_of_reach_has_no_path(scorer: PropagationScorer):
    graph = scorer.engine.graph
    everything = np.arange(len(graph.tails))
    assert paths_behind(scorer, 0, 0, 5, num_paths=3, hidden=everything) == (0.0, [])


def test_best_paths_are_simple_and_may_skip_layers():
    """Edges 0→1, 1→0, 1→2 in every one of three layers; the walk 0→1→0→… is not simple."""
    sources, targets = np.tile([0, 1, 1], 3).astype(np.int32), np.tile([1, 0, 2], 3).astype(np.int32)
    gradients = EdgeGradients(np.array([0, 3, 6, 9]), sources, np.zeros(9, dtype=np.int32), targets, np.ones(9, dtype=np.float32))
    assert best_paths(gradients, 0, 2, 5) == [((0, 1), (0, 2))]
    assert best_paths(gradients, 0, 3, 5) == []
