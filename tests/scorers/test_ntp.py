"""NTP-λ: proofs against all of them one by one, gradients of the weakest similarity, rules, training and resuming."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk import api
from hopwalk.config.loading import load_settings
from hopwalk.config.settings import NtpSettings, Settings, changed
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError, SettingsError
from hopwalk.learning.run import Run
from hopwalk.scorers.ntp.model import MOST_ENTITIES, NtpScorer
from hopwalk.scorers.ntp.proofs import NONE
from hopwalk.scorers.ntp.rules import decoded_rules
from tests.support.helpers import dataset_of
from tests.support.stopping import StopAt, Stopped, result_of
from tests.support.villages import VILLAGE, settings_of

ALL = "same, inverse, transitive, chain"
FACTS = [(0, 0, 1), (1, 1, 2), (2, 0, 3), (3, 2, 0), (4, 1, 0), (0, 2, 4), (1, 0, 4)]


def small(templates: str = ALL, ranks_by: str = "prover", seed: int = 0) -> NtpScorer:
    settings = NtpSettings(templates=templates, copies=2, dimension=4, initial_scale=0.5, ranks_by=ranks_by, seed=seed)  # type: ignore[arg-type]
    return NtpScorer(5, 3, settings, Triples.of(FACTS))


def all_proofs(scorer: NtpScorer, goal: tuple[int, int, int], hidden: int = NONE) -> Iterator[float]:
    """The score of every proof, by plain loops."""
    entities, predicates = scorer.similarities()
    head, relation, tail = goal
    facts = [fact for number, fact in enumerate(FACTS) if number != hidden]

    def unified(predicate: int, start: int, end: int, fact: tuple[int, int, int]) -> float:
        return float(min(predicates[predicate, fact[1]], entities[start, fact[0]], entities[end, fact[2]]))

    yield from (unified(relation, head, tail, fact) for fact in facts)
    rules = scorer.rules
    for rule, (first, second) in enumerate(rules.atoms.tolist()):
        most = predicates[rules.heads[rule], relation]
        if second == NONE:
            ends = (tail, head) if rules.is_swapped[rule, 0] else (head, tail)
            yield from (min(most, unified(first, *ends, fact)) for fact in facts)
            continue
        for one in facts:
            for two in facts:
                near = min(predicates[first, one[1]], entities[head, one[0]])
                yield min(most, near, unified(second, one[2], tail, two))


@pytest.mark.parametrize("seed", range(3))
def test_the_best_proof_is_the_best_of_all(seed: int):
    scorer = small(seed=seed)
    goals = [(head, relation, tail) for head in range(5) for relation in range(3) for tail in range(5)]
    hidden = [FACTS.index(goal) if goal in FACTS else NONE for goal in goals]
    proofs = scorer.best_proofs(np.array(goals), np.array(hidden))
    expected = [max(all_proofs(scorer, goal, number)) for goal, number in zip(goals, hidden, strict=True)]
    assert proofs.scores == pytest.approx(expected)
    assert scorer.scores_of_proofs(np.array(goals), proofs).tolist() == pytest.approx(expected, rel=1e-4)
    assert set(proofs.rules.tolist()) - {NONE}, "some goals are proved by rules"


def test_scores_of_all_tails_in_both_directions():
    scorer = small()
    for head in range(5):
        for relation in range(3):
            ids = torch.tensor([head]), torch.tensor([relation])
            expected = [max(all_proofs(scorer, (head, relation, tail))) for tail in range(5)]
            assert scorer.score_all_tails(*ids)[0].exp().tolist() == pytest.approx(expected, rel=1e-4)
            inverse = [max(all_proofs(scorer, (tail, relation, head))) for tail in range(5)]
            found = scorer.score_all_tails(ids[0], scorer.relation_ids.inverse(ids[1]))[0].exp().tolist()
            assert found == pytest.approx(inverse, rel=1e-4)


@pytest.mark.parametrize("ranks_by", ["prover", "mean", "max"])
def test_triples_have_the_scores_of_their_column(ranks_by: str):
    scorer = small(ranks_by=ranks_by)
    heads, relations, tails = torch.tensor([0, 3, 0]), torch.tensor([1, 4, 1]), torch.tensor([2, 0, 4])
    scores = scorer.score_all_tails(heads, relations)
    assert scorer.score_triples(heads, relations, tails).tolist() == pytest.approx(scores[torch.arange(3), tails].tolist())


def test_the_mean_and_the_larger_of_both_probabilities():
    goals = torch.tensor([[0, 1, tail] for tail in range(5)])
    heads, relations = goals[:1, 0], goals[:1, 1]
    prover, mean, larger = (small(ranks_by=name).score_all_tails(heads, relations)[0].exp() for name in ("prover", "mean", "max"))
    embedding = torch.sigmoid(small().complex_scores(goals))
    assert mean.tolist() == pytest.approx(((prover + embedding) / 2).tolist(), rel=1e-4)
    assert larger.tolist() == pytest.approx(torch.maximum(prover, embedding).tolist(), rel=1e-4)


def test_the_gradient_is_that_of_the_weakest_similarity():
    scorer = small("same")
    goals = np.array([[0, 0, 3]])
    proofs = scorer.best_proofs(goals, np.array([NONE]))
    scorer.scores_of_proofs(goals, proofs).sum().backward()
    rows = [int((table.grad.abs().sum(dim=1) > 0).sum()) for table in (scorer.entities, scorer.predicates)]  # type: ignore[union-attr]
    assert sorted(rows) == [0, 2], "two embeddings of one kind"


def test_a_proof_by_hand():
    scorer = small("chain")
    with torch.no_grad():  # rule 0: r2(X, Y) ⇐ r0(X, Z), r1(Z, Y), exactly
        for predicate, relation in ((3, 2), (5, 0), (7, 1)):
            scorer.predicates[predicate] = scorer.predicates[relation]
    proof = scorer.proof(0, 2, 2)
    assert proof is not None and proof.score == pytest.approx(1) and proof.rule == 0
    assert proof.facts == ((0, 0, 1), (1, 1, 2))
    assert scorer.proof(2, 5, 0) == proof, "the inverse is the same goal"
    itself, hidden = scorer.proof(0, 0, 1), scorer.proof(0, 0, 1, hides_itself=True)
    assert itself is not None and itself.score == 1 and itself.facts == ((0, 0, 1),)
    assert hidden is not None and hidden.score < 1 and (0, 0, 1) not in hidden.facts
    best = decoded_rules(scorer, 2)[0]
    assert (best.head, best.body) == (2, (0, 1)) and best.confidence == pytest.approx(1)
    assert decoded_rules(scorer, 5)[0].body == (4, 3), "the other way round"


def tiny(**values: object) -> Settings:
    own = {"dimension": 8, "copies": 3, "epochs": 3, "evaluate_every": 1, "learning_rate": 0.02} | values
    return changed(settings_of(), {"scorer.model": "ntp"} | {f"ntp.{name}": value for name, value in own.items()})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return api.train_scorer(VILLAGE, tiny(), out=tmp_path_factory.mktemp("ntp") / "run").path


def test_it_is_asked_evaluated_and_has_rules(trained: Path):
    reasoner = hopwalk.load(trained)
    rules = reasoner.rules("uncle", k=3)
    assert len(rules) == 3 and all(rule.weight > 0 for rule in rules)
    uses = [rule.weight * rule.evidence.confidence for rule in rules]
    assert uses == sorted(uses, reverse=True)
    assert reasoner.ask("child 0", "mother", k=2)
    assert api.evaluate(trained)["scorer"].heads.num_queries == len(VILLAGE.test)
    assert "NTP-λ" in (trained / "card.md").read_text(encoding="utf-8")
    loss = [record["loss"] for record in Run.open(trained).history]
    assert loss[-1] < loss[0]


def test_a_killed_training_resumes_to_the_same_bits(tmp_path: Path, checkpoints: None):
    whole = api.train_scorer(VILLAGE, tiny(), out=tmp_path / "whole")
    with pytest.raises(Stopped):
        api.train_scorer(VILLAGE, tiny(), out=tmp_path / "run", callbacks=[StopAt(2, 1)])
    resumed = api.train_scorer(VILLAGE, tiny(), out=tmp_path / "run", resume=True)
    assert result_of(resumed) == result_of(whole)


def test_mistakes(tmp_path: Path):
    with pytest.raises(SettingsError, match="there is no template 'chian'"):
        small("chian")
    with pytest.raises(SettingsError, match=r"ntp\.dimension = 3"):
        NtpScorer(2, 1, NtpSettings(dimension=3), Triples.of([(0, 0, 1)]))
    with pytest.raises(DataError, match="are too many"):
        NtpScorer(MOST_ENTITIES + 1, 1, NtpSettings(), Triples.of([(0, 0, 1)]))
    one = dataset_of([("a", "r", "b")])
    empty = replace(one, facts=one.facts[:0], train=one.train[:0])
    with pytest.raises(DataError, match="no facts to train on"):
        api.train_scorer(empty, tiny(), out=tmp_path / "run")


def test_templates_of_the_benchmarks():
    assert load_settings("umls").ntp.templates == "same, transitive, chain"
    assert load_settings("kinship").ntp.templates == "same, inverse, chain"
