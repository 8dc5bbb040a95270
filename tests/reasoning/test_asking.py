"""Answers of queries: their order, their paths, and which of them are known."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.walker.decoding import Decoder
from tests.support.villages import VILLAGE


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return api.load(uncles_run)


@pytest.fixture(scope="module")
def with_scorer(village_run: Path) -> Reasoner:
    return api.load(village_run)


def decoding(reasoner: Reasoner, *, beam: int | None = None, blend_weight: float | None = None) -> Reasoner:
    """The reasoner with another beam or another weight of the blend."""
    decoder = reasoner.decoder
    settings = changed(decoder.settings, {} if beam is None else {"walk.beam": beam})
    weight = decoder.blend_weight if blend_weight is None else blend_weight
    return replace(reasoner, decoder=Decoder(decoder.environment, settings, decoder.scorer_logits, weight))


def test_a_predicted_answer_has_its_path(reasoner: Reasoner):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    answers = reasoner.ask(head, relation, k=5)
    assert [answer.rank for answer in answers] == [1, 2, 3, 4, 5]
    scores = [answer.score for answer in answers]
    assert scores == sorted(scores, reverse=True)
    (found,) = [answer for answer in answers if answer.entity == tail]
    assert not found.is_known and found.probability is None
    assert [edge.relation for edge in found.paths[0].edges] == ["mother", "brother"]
    assert found.paths[0].head == head and found.paths[0].edges[-1].entity == tail


def test_facts_of_the_graph_are_marked_as_known(reasoner: Reasoner):
    known = {tail for head, relation, tail in VILLAGE.labels_of(VILLAGE.train) if (head, relation) == ("child 0", "mother")}
    answers = reasoner.ask("child 0", "mother", k=200)
    assert {answer.entity for answer in answers if answer.is_known} == known


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
    assert any(str(path) == "mother 0 ←mother— child 0" for answer in answers for path in answer.paths)


@pytest.mark.parametrize("only_new", [False, True])
def test_many_queries_together_are_answered_as_one_by_one(reasoner: Reasoner, with_scorer: Reasoner, only_new: bool):
    queries = list(dict.fromkeys((head, relation) for head, relation, _ in VILLAGE.labels_of(VILLAGE.train)[::12]))
    queries += [(head, "uncle⁻¹") for head, _ in queries[:5]]
    for one in (decoding(reasoner, beam=500), decoding(with_scorer, beam=500)):
        batch = one.decoder.queries_at_once
        assert 1 < batch < len(queries) and len(queries) % batch  # several batches, the last one smaller
        together = one.ask_many(queries, k=5, num_paths=2, only_new=only_new)
        for (head, relation), answers in zip(queries, together, strict=True):
            alone = one.ask(head, relation, k=5, num_paths=2, only_new=only_new)
            assert [answer.entity for answer in answers] == [answer.entity for answer in alone]
            assert [bool(answer.paths) for answer in answers] == [bool(answer.paths) for answer in alone]
            assert [answer.score for answer in answers] == pytest.approx([answer.score for answer in alone], abs=1e-4)
    assert reasoner.ask_many([]) == []


def test_answers_are_ranked_by_the_blend(with_scorer: Reasoner):
    """The scores are those of scoring every entity."""
    head, relation = "child 3", "uncle"
    head_ids, relation_ids = (np.array([id_], dtype=np.int32) for id_ in with_scorer.names.query_ids(head, relation))
    heavy = decoding(with_scorer, blend_weight=2.0)
    scores = heavy.decoder.scores(head_ids, relation_ids, [2.0])["blend 2"][0]
    new = heavy.ask(head, relation, k=len(VILLAGE.entities), only_new=True)
    for answer in new:
        assert answer.score == pytest.approx(float(scores[VILLAGE.entities.id(answer.entity)]), abs=1e-4)
    assert len(new) == len(VILLAGE.entities) - len(heavy.decoder.environment.known.answers(head_ids, relation_ids)[1])
    assert [answer.entity for answer in heavy.ask(head, relation, k=7, only_new=True)] == [one.entity for one in new[:7]]


def test_entities_without_a_path_are_ranked_by_the_scorer(with_scorer: Reasoner):
    answers = with_scorer.ask("child 0", "uncle", k=len(VILLAGE.entities))
    assert len(answers) == len(VILLAGE.entities)  # the scorer scores every entity
    assert all(answer.probability is not None and 0 <= answer.probability <= 1 for answer in answers)
    without_path = [answer for answer in answers if not answer.paths]
    assert without_path
    assert all(answer.log_prob is None and "ranked by the scorer alone" in str(answer) for answer in without_path)


@pytest.mark.parametrize("module", ["asking", "explaining", "rule_mining", "completing", "comparing", "evaluating"])
def test_answering_does_not_import_drawing(module: str):
    script = f"import hopwalk.reasoning.{module}, sys; print(*sorted(name for name in sys.modules if name.startswith('hopwalk')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert f"hopwalk.reasoning.{module}" in imported
    assert not {"hopwalk.reasoning.drawing", "hopwalk.reasoning.html", "hopwalk.reasoning.results"} & {*imported}
