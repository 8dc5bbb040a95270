"""Answers of queries: their order, their paths, and which of them are known."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.reasoning.probabilities import pool_size
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.runs import load_decoder
from tests.support.villages import VILLAGE


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return api.load(uncles_run)


@pytest.fixture(scope="module")
def with_scorer(village_run: Path) -> Reasoner:
    return api.load(village_run)


def with_beam(reasoner: Reasoner, beam: int) -> Reasoner:
    """The reasoner of a walker with another beam."""
    model = reasoner.model
    assert isinstance(model, WalkerModel)
    settings = changed(model.decoder.settings, {"walk.beam": beam})
    decoder = Decoder(model.decoder.environment, settings, model.decoder.calibration)
    return replace(reasoner, model=WalkerModel(decoder, reasoner.dataset))


def test_a_predicted_answer_has_its_path(reasoner: Reasoner):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    answers = reasoner.ask(head, relation, k=5)
    assert [answer.rank for answer in answers] == [1, 2, 3, 4, 5]
    chances = [answer.probability for answer in answers if answer.probability is not None]
    assert chances == sorted(chances, reverse=True)
    (found,) = [answer for answer in answers if answer.entity == tail]
    assert not found.is_known and found.probability is not None and 0 < found.probability < 1
    assert 0 < found.paths[0].share <= 1
    assert [edge.relation for edge in found.paths[0].edges] == ["mother", "brother"]
    assert found.paths[0].head == head and found.paths[0].edges[-1].entity == tail


def test_facts_of_the_graph_are_marked_as_known(reasoner: Reasoner):
    known = {tail for head, relation, tail in VILLAGE.labels_of(VILLAGE.train) if (head, relation) == ("child 0", "mother")}
    answers = reasoner.ask("child 0", "mother", k=200)
    assert {answer.entity for answer in answers if answer.is_known} == known
    for answer in answers:  # a known fact is not a prediction
        assert (answer.probability is None) == answer.is_known


def test_only_new_answers(reasoner: Reasoner, with_scorer: Reasoner):
    for one in (reasoner, with_scorer):
        answers = one.ask("child 0", "mother", k=200, only_new=True)
        assert answers and not any(answer.is_known for answer in answers)


def test_paths_that_differ_only_in_where_they_stay_are_one(reasoner: Reasoner):
    for answer in reasoner.ask("child 0", "mother", k=20, num_paths=10):
        assert len({path.edges for path in answer.paths}) == len(answer.paths)


def test_inverse_queries(reasoner: Reasoner):
    answers = reasoner.ask("mother 0", "mother⁻¹", k=50)
    assert {answer.entity for answer in answers if answer.is_known} == {"child 0", "child 16"}
    paths = [path for answer in answers for path in answer.paths]
    assert any(str(path).startswith("mother 0 ←mother— child 0 ") for path in paths)
    assert "mother 0 ←mother— child 0" not in [str(path) for path in paths]  # a fact is no reason for itself


@pytest.mark.parametrize("only_new", [False, True])
def test_many_queries_together_are_answered_as_one_by_one(reasoner: Reasoner, with_scorer: Reasoner, only_new: bool):
    queries = list(dict.fromkeys((head, relation) for head, relation, _ in VILLAGE.labels_of(VILLAGE.train)[::12]))
    queries += [(head, "uncle⁻¹") for head, _ in queries[:5]]
    for one in (with_beam(reasoner, 500), with_beam(with_scorer, 500)):
        batch = one.model.queries_at_once
        assert 1 < batch < len(queries) and len(queries) % batch  # several batches, the last one smaller
        together = one.ask_many(queries, k=5, num_paths=2, only_new=only_new)
        for (head, relation), answers in zip(queries, together, strict=True):
            alone = one.ask(head, relation, k=5, num_paths=2, only_new=only_new)
            assert [answer.entity for answer in answers] == [answer.entity for answer in alone]
            assert [bool(answer.paths) for answer in answers] == [bool(answer.paths) for answer in alone]
            assert [answer.score for answer in answers] == pytest.approx([answer.score for answer in alone], abs=1e-4)
    assert reasoner.ask_many([]) == []


def test_answers_are_ranked_by_the_probability_of_paths(with_scorer: Reasoner):
    """The scores are those of scoring every entity, and the head is not among the answers."""
    head, relation = "child 3", "uncle"
    head_ids, relation_ids = (np.array([id_], dtype=np.int32) for id_ in with_scorer.names.query_ids(head, relation))
    scores = load_decoder(with_scorer.run).scores(head_ids, relation_ids)[0]
    new = with_scorer.ask(head, relation, k=len(VILLAGE.entities), only_new=True)
    for answer in new:
        assert answer.score == pytest.approx(float(scores[VILLAGE.entities.id(answer.entity)]), abs=1e-4)
        assert answer.paths  # no answer without its reason
    reached = {VILLAGE.entities[id_] for id_ in np.flatnonzero(scores > -np.inf).tolist()}
    assert head in reached and {answer.entity for answer in new} == reached - {head}
    pool = {answer.entity for answer in sorted(new, key=lambda answer: -answer.score)[: pool_size(7)]}
    expected = [answer.entity for answer in new if answer.entity in pool][:7]  # the best by score, by their probability
    assert [answer.entity for answer in with_scorer.ask(head, relation, k=7, only_new=True)] == expected


@pytest.mark.parametrize("module", ["asking", "explaining", "rule_mining", "completing", "comparing", "evaluating"])
def test_answering_does_not_import_drawing(module: str):
    script = f"import hopwalk.reasoning.{module}, sys; print(*sorted(name for name in sys.modules if name.startswith('hopwalk')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert f"hopwalk.reasoning.{module}" in imported
    assert not {"hopwalk.reasoning.drawing", "hopwalk.reasoning.html", "hopwalk.reasoning.results"} & {*imported}
