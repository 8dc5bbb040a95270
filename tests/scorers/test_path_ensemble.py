"""Ensembles of scorers that are made of walks: the mean of log-odds, and the paths that carry it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk.config.settings import changed
from hopwalk.data.triples import Triples
from hopwalk.learning.scorer import PathScorer
from hopwalk.scorers.ensemble import Ensemble
from hopwalk.scorers.path_ensemble import PathEnsemble
from tests.support.villages import VILLAGE, propagation_of

SHORT = {"propagation.queries": 400, "propagation.evaluations": 1}


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two propagation models of different depth, so that one reaches what the other does not, and NeuralLP."""
    folder = tmp_path_factory.mktemp("walks")
    changes: list[dict[str, Any]] = [
        {"propagation.layers": 1, **SHORT},
        {"propagation.seed": 1},
        {"scorer.model": "neural-lp", "rules.queries": 200, "rules.evaluations": 1},
    ]
    settings = [changed(propagation_of(), change) for change in changes]
    return [hopwalk.train_scorer(VILLAGE, one, out=folder / str(number)).path for number, one in enumerate(settings)]


@pytest.fixture(scope="module")
def ensemble(members: list[Path], tmp_path_factory: pytest.TempPathFactory) -> PathEnsemble:
    run = hopwalk.combine_scorers(members, out=tmp_path_factory.mktemp("three") / "run")
    loaded = hopwalk.load_scorer(run.path)
    assert isinstance(loaded, PathEnsemble)
    return loaded


def queries() -> tuple[np.ndarray, np.ndarray]:
    return VILLAGE.test.heads[:12], VILLAGE.test.relations[:12]


def test_its_scores_are_those_of_a_plain_ensemble(members: list[Path], ensemble: PathEnsemble):
    """What only some members reach has the score of entities out of reach from the others."""
    plain = Ensemble([hopwalk.load_scorer(member) for member in members])
    ids = [torch.from_numpy(column.astype(np.int64)) for column in queries()]
    torch.testing.assert_close(ensemble.score_all_tails(*ids), plain.score_all_tails(*ids), rtol=1e-4, atol=1e-4)
    counts = [scorer.score_reached(*queries()).num_reached for scorer, _ in ensemble.weighted()]
    assert (counts[0] < counts[1]).any()
    assert (ensemble.score_reached(*queries()).num_reached >= np.max(counts, axis=0)).all()


def test_a_hidden_fact_is_hidden_from_all_members(ensemble: PathEnsemble):
    head, relation, tail = VILLAGE.facts.array()[0].tolist()
    ids = np.array([head], dtype=np.int32), np.array([relation], dtype=np.int32)
    hidden = [Triples.of([(head, relation, tail)])]
    expected = sum(
        weight * member.log_odds_of_reached(member.score_reached(*ids, hidden)).dense(member.num_entities)
        for member, weight in ensemble.weighted()
    )
    found = ensemble.score_reached(*ids, hidden).dense(ensemble.num_entities)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(found, ensemble.score_reached(*ids).dense(ensemble.num_entities))


def test_the_fall_of_the_score_is_shared_out_among_the_paths(ensemble: PathEnsemble):
    """Taken away together, the paths cost what their drops add up to; they have no fact in common; the best is first."""
    for head, relation, tail in VILLAGE.test.array()[:8].tolist():
        (paths,) = ensemble.paths_behind(head, relation, [tail])
        facts = [fact for path in paths for fact in facts_of(ensemble, head, path.steps)]
        assert paths and len(facts) == len(set(facts))
        assert [path.drop for path in paths] == sorted((path.drop for path in paths), reverse=True)
        before, after = (score_of(ensemble, head, relation, tail, hidden) for hidden in ([], facts))
        if all(path.drop > 0 for path in paths) and np.isfinite(after):
            assert sum(path.drop for path in paths) == pytest.approx(before - after, rel=1e-3, abs=1e-3)
        assert sum(path.share for path in paths) <= 1 + 1e-5


def test_several_answers_at_once(ensemble: PathEnsemble):
    head, relation, tail = VILLAGE.test.array()[0].tolist()
    ids = np.array([head], dtype=np.int32), np.array([relation], dtype=np.int32)
    other = int(ensemble.score_reached(*ids).entities[0])
    both = ensemble.paths_behind(head, relation, [tail, other])
    assert both == [ensemble.paths_behind(head, relation, [one])[0] for one in (tail, other)]


def test_a_reasoner_answers_by_it(members: list[Path], tmp_path: Path):
    """All of it works through the run folder: asking with paths, more facts, new entities, faithfulness."""
    run = hopwalk.combine_scorers(members[:2], out=tmp_path / "both")
    reasoner = hopwalk.load(run.path)
    assert reasoner.model.ranks_by == "the walks from the head, and nothing else"
    head, relation, _ = VILLAGE.test.array()[0].tolist()
    answers = reasoner.ask(VILLAGE.entities[head], VILLAGE.relations[relation])
    assert answers[0].paths
    more = reasoner.with_facts([("stranger", VILLAGE.relations[relation], VILLAGE.entities[head])])
    assert "stranger" in more.dataset.entities


def test_a_member_without_walks_takes_the_paths_away(members: list[Path], tmp_path: Path):
    embeddings = changed(propagation_of(), {"scorer.model": "complex", "scorer.epochs": 1})
    other = hopwalk.train_scorer(VILLAGE, embeddings, out=tmp_path / "complex").path
    mixed = hopwalk.load_scorer(hopwalk.combine_scorers([members[0], other], out=tmp_path / "mixed").path)
    assert not isinstance(mixed, PathScorer)


def facts_of(scorer: PathScorer, head: int, steps: tuple[tuple[int, int], ...]) -> list[tuple[int, int, int]]:
    found, source = [], head
    for relation, entity in steps:
        plain = relation % scorer.relation_ids.num_relations
        found.append((entity, plain, source) if relation != plain else (source, plain, entity))
        source = entity
    return found


def score_of(scorer: PathScorer, head: int, relation: int, entity: int, hidden: list[tuple[int, int, int]]) -> float:
    ids = np.array([head], dtype=np.int32), np.array([relation], dtype=np.int32)
    reached = scorer.score_reached(*ids, [Triples.of(hidden)])
    return float(reached.dense(scorer.num_entities, -np.inf)[0, entity])
