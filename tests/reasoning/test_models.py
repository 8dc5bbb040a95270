"""What ranks answers: candidates, their order and probabilities, hidden facts, and the paths behind their scores."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hopwalk import api
from hopwalk.config.settings import PropagationSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.learning.calibration import Calibration
from hopwalk.learning.run import Run
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.reasoning.asking import answer_queries
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.models import AnswerModel, ScorerModel, best_candidates, path_scorer_of
from hopwalk.reasoning.probabilities import probabilities
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.scorers.ensemble import Ensemble
from hopwalk.utils.text import ordinal
from tests.support.helpers import dataset_of
from tests.support.villages import VILLAGE

UNCLE = VILLAGE.relations.id("uncle")
IS_UNCLE = VILLAGE.train.relations == UNCLE
CHILDREN, COUNTS = np.unique(VILLAGE.train.heads[IS_UNCLE], return_counts=True)
QUERIES = [(child, UNCLE) for child in CHILDREN[COUNTS == 2][:3].tolist()]  # with two known uncles
NOTHING = np.empty(0, dtype=np.int32)


@pytest.fixture(scope="module")
def propagation(propagation_run: Path) -> ScorerModel:
    model = load_model(Run.open(propagation_run))
    assert isinstance(model, ScorerModel)
    return model


@pytest.fixture(scope="module")
def embedding(village_run: Path) -> ScorerModel:
    model = load_model(Run.open(village_run / "scorer"))
    assert isinstance(model, ScorerModel)
    return model


@pytest.fixture(scope="module")
def walker(uncles_run: Path) -> AnswerModel:
    return load_model(Run.open(uncles_run))


@pytest.fixture(params=["propagation", "embedding", "walker"])
def model(request: pytest.FixtureRequest) -> AnswerModel:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, AnswerModel)
    return found


def known_answers(model: AnswerModel, head: int, relation: int) -> set[int]:
    return set(model.known.answers(np.array([head], dtype=np.int32), np.array([relation], dtype=np.int32))[1].tolist())


# Order


def test_candidates_by_hand():
    """Best first, of equals the one with the smaller id; those that are left out are not counted."""
    entities, scores = np.array([9, 4, 7, 2, 5]), np.array([1.0, 3.0, 1.0, 3.0, 2.0])
    found = best_candidates(entities, scores, 2.0, NOTHING, None)
    assert found.entities.tolist() == [2, 4, 5, 7, 9] and found.scores.tolist() == [3.0, 3.0, 2.0, 1.0, 1.0]
    assert found.relative.tolist() == [1.0, 1.0, 0.0, -1.0, -1.0]
    for k in range(1, 7):
        assert best_candidates(entities, scores, 2.0, NOTHING, k).entities.tolist() == [2, 4, 5, 7, 9][:k]
    assert best_candidates(entities, scores, 2.0, np.array([4, 5], dtype=np.int32), 2).entities.tolist() == [2, 7]


def test_a_ranking_is_in_the_order_of_its_scores(model: AnswerModel):
    for whole, best in zip(model.rank(QUERIES).candidates, model.rank(QUERIES, k=4).candidates, strict=True):
        pairs = list(zip((-whole.scores).tolist(), whole.entities.tolist(), strict=True))
        assert pairs == sorted(pairs) and len({*whole.entities.tolist()}) == len(pairs)
        assert best.entities.tolist() == whole.entities[:4].tolist()
        np.testing.assert_allclose(whole.scores - whole.relative, (whole.scores - whole.relative)[:1].repeat(len(pairs)))


def test_only_new_candidates(model: AnswerModel):
    everything, new = model.rank(QUERIES).candidates, model.rank(QUERIES, only_new=True).candidates
    for query, every, without in zip(QUERIES, everything, new, strict=True):
        known = known_answers(model, *query)
        assert known & {*every.entities.tolist()} and not known & {*without.entities.tolist()}
        if not isinstance(model, WalkerModel):  # whose walks are others if they must not end at known answers
            assert without.entities.tolist() == [entity for entity in every.entities.tolist() if entity not in known]


# Hidden facts


def test_a_fact_is_ranked_among_all_but_other_known_answers(model: AnswerModel):
    facts = VILLAGE.train[IS_UNCLE & np.isin(VILLAGE.train.heads, [head for head, _ in QUERIES])]
    assert len(facts) == 6
    for (head, relation, tail), found in zip(facts.array().tolist(), model.rank_facts(facts).candidates, strict=True):
        others = known_answers(model, head, relation) - {tail}
        assert others and not others & {*found.entities.tolist()} and tail in found.entities.tolist()


def test_a_fact_is_hidden_from_its_own_query(propagation: ScorerModel):
    """The scores are those of the same model on a graph without the fact."""
    row = int(np.flatnonzero(IS_UNCLE)[0])
    fact, others = VILLAGE.train[row : row + 1], VILLAGE.facts[np.arange(len(VILLAGE.facts)) != row]
    assert isinstance(propagation.scorer, PropagationScorer)
    without = propagation.scorer.with_graph(others, len(VILLAGE.entities)).score_reached(fact.heads, fact.relations)
    expected = dict(zip(without.entities.tolist(), without.scores.tolist(), strict=True))
    (found,) = propagation.rank_facts(fact).candidates
    assert dict(zip(found.entities.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(
        {entity: score for entity, score in expected.items() if entity in found.entities.tolist()}, abs=1e-4
    )
    (seen,) = propagation.rank([(int(fact.heads[0]), UNCLE)]).candidates
    tail = int(fact.tails[0])
    assert seen.scores[seen.entities.tolist().index(tail)] != pytest.approx(expected[tail], abs=1e-3)


@pytest.mark.parametrize("is_inverse", [False, True])
def test_paths_of_known_answers_do_not_use_the_fact_itself(propagation: ScorerModel, is_inverse: bool):
    facts = VILLAGE.train[np.flatnonzero(IS_UNCLE)[:6]]
    rows = [(tail, UNCLE + 4, head) if is_inverse else (head, UNCLE, tail) for head, _, tail in facts.array().tolist()]
    ranking = propagation.rank([(head, relation) for head, relation, _ in rows])
    for (head, relation, tail), (paths,) in zip(rows, ranking.paths([[tail] for _, _, tail in rows], 3), strict=True):
        assert paths
        for steps, _ in paths:
            places = [head, *(entity for _, entity in steps)]
            edges = {(place, link, after) for place, (link, after) in zip(places, steps, strict=False)}
            assert (head, relation, tail) not in edges and (tail, (relation + 4) % 8, head) not in edges
            assert places[-1] == tail


# Probabilities


@pytest.mark.parametrize("calibration", [Calibration(0.7, -1.0), Calibration(0.7, -1.0, is_relative=True)])
@pytest.mark.parametrize("name", ["propagation", "embedding"])
def test_probabilities_are_those_of_the_scorer(
    request: pytest.FixtureRequest, name: str, calibration: Calibration, monkeypatch: pytest.MonkeyPatch
):
    """Without probabilities of facts, which need dev."""
    model = request.getfixturevalue(name)
    for owner in (model, model.scorer):
        monkeypatch.setattr(owner, "calibration", calibration)
    monkeypatch.setattr(model, "probability", None)
    candidates = model.rank(QUERIES).candidates
    chances = probabilities(model, QUERIES, candidates)
    assert chances is not None
    for (head, relation), found, given in zip(QUERIES, candidates, chances, strict=True):
        tails = torch.from_numpy(found.entities)
        with torch.inference_mode():
            expected = model.scorer.probability_of_triples(torch.full_like(tails, head), torch.full_like(tails, relation), tails)
        np.testing.assert_allclose(given, expected.numpy(), rtol=1e-4)


@pytest.mark.parametrize("is_relative", [False, True])
def test_probabilities_of_a_walker(walker: AnswerModel, is_relative: bool, monkeypatch: pytest.MonkeyPatch):
    assert isinstance(walker, WalkerModel)
    monkeypatch.setattr(walker, "calibration", Calibration(0.7, -1.0, is_relative))
    monkeypatch.setattr(walker, "probability", None)
    heads, relations = (np.array(ids, dtype=np.int32) for ids in zip(*QUERIES, strict=True))
    scores = walker.score_all_tails(heads, relations)
    assert isinstance(scores, np.ndarray)
    candidates = walker.rank(QUERIES, only_new=True).candidates
    chances = probabilities(walker, QUERIES, candidates)
    assert chances is not None
    for own, found, given in zip(scores.astype(np.float64), candidates, chances, strict=True):
        shift = np.log(np.exp(own).sum()) if is_relative else 0.0
        expected = 1 / (1 + np.exp(-(0.7 * (own[found.entities] - shift) - 1.0)))
        np.testing.assert_allclose(given, expected, rtol=1e-4)


# Paths


def test_an_embedding_model_has_no_paths(embedding: ScorerModel):
    assert embedding.max_hops == 0 and embedding.ranks_by == "embeddings; there are no paths"
    assert not embedding.takes_new_entities
    (found,) = embedding.rank(QUERIES[:1]).candidates
    assert len(found.entities) == len(VILLAGE.entities)  # it has a score for every entity
    assert embedding.rank(QUERIES[:1]).paths([[3, 4]], 2) == [[[], []]]


def test_propagation_ranks_what_its_walks_reach(propagation: ScorerModel):
    assert propagation.max_hops == 2 and propagation.ranks_by == "the walks from the head, and nothing else"
    assert propagation.takes_new_entities
    ranking = propagation.rank(QUERIES)
    chosen = [found.entities[:4].tolist() for found in ranking.candidates]
    for (head, _), entities, of_entities in zip(QUERIES, chosen, ranking.paths(chosen, 2), strict=True):
        for entity, paths in zip(entities, of_entities, strict=True):
            assert 1 <= len(paths) <= 2 or entity == head
            assert all(1 <= len(steps) <= 2 and steps[-1][1] == entity for steps, _ in paths)
            assert sum(share for _, share in paths) <= 1 + 1e-6


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, propagation_run: Path, village_run: Path) -> ScorerModel:
    """An ensemble; the embedding model is the first member."""
    run = api.combine_scorers([village_run / "scorer", propagation_run], out=tmp_path_factory.mktemp("both") / "run")
    model = load_model(run)
    assert isinstance(model, ScorerModel) and isinstance(model.scorer, Ensemble)
    return model


def test_an_ensemble_has_the_paths_of_propagation(both: ScorerModel, propagation: ScorerModel):
    assert both.max_hops == 2 and "paths are those of the first member that has them" in both.ranks_by
    chosen = [found.entities[:3].tolist() for found in propagation.rank(QUERIES, only_new=True).candidates]
    assert both.rank(QUERIES, only_new=True).paths(chosen, 2) == propagation.rank(QUERIES, only_new=True).paths(chosen, 2)
    (found,) = both.rank(QUERIES[:1]).candidates
    assert len(found.entities) == len(VILLAGE.entities)  # also what no walk reaches
    assert not both.takes_new_entities


def test_a_fact_is_hidden_from_the_members_that_walk(both: ScorerModel):
    assert isinstance(both.scorer, Ensemble) and all(both.scorer.weights)
    fact = VILLAGE.train[np.flatnonzero(IS_UNCLE)[:1]]
    query, tail = (int(fact.heads[0]), UNCLE), int(fact.tails[0])
    (seen,), (hidden,) = both.rank([query]).candidates, both.rank_facts(fact).candidates
    scores = [found.scores[found.entities.tolist().index(tail)] for found in (seen, hidden)]
    assert abs(scores[0] - scores[1]) > 1e-3
    with torch.inference_mode():
        every = both.scorer.score_all_tails(torch.tensor([query[0]]), torch.tensor([UNCLE]))[0]
    np.testing.assert_allclose(seen.scores, every[torch.from_numpy(seen.entities)].numpy(), atol=1e-4)


def test_a_member_without_weight_has_no_paths_to_show(propagation: ScorerModel, embedding: ScorerModel):
    model = ScorerModel(Ensemble([propagation.scorer, embedding.scorer], [0.0, 1.0]), VILLAGE, "")
    assert model.max_hops == 0 and model.rank(QUERIES[:1]).paths([[3]], 1) == [[[]]]


# Why not, and loops, with models that have learnt nothing


def untrained(dataset: Dataset, **values: object) -> ScorerModel:
    settings = PropagationSettings.model_validate({"layers": 2, "width": 8, "attention_width": 4} | values)
    scorer = PropagationScorer(len(dataset.entities), len(dataset.relations), settings, dataset.facts)
    return ScorerModel(scorer, dataset, "")


def why_not(model: ScorerModel, *labels: str) -> str:
    entities, relations = model.dataset.entities, model.dataset.relations
    fact = entities.id(labels[0]), relations.id(labels[1]), entities.id(labels[2])
    assert fact[2] not in model.rank_facts(Triples.of([fact])).candidates[0].entities.tolist()
    return model.why_not(fact)


def test_why_an_entity_is_not_reached():
    chain = dataset_of([("a", "next", "b"), ("b", "next", "c"), ("c", "next", "d")])
    model = untrained(chain)
    assert why_not(model, "a", "next", "d") == "no path of at most 2 hops leads there"
    assert why_not(model, "a", "next", "b") == "no path of at most 2 hops but the fact itself leads there"
    head, inverse, tail = chain.entities.id("b"), chain.relation_ids.inverse(chain.relations.id("next")), chain.entities.id("a")
    assert model.why_not((head, inverse, tail)) == "no path of at most 2 hops but the fact itself leads there"


def test_why_pruned_walks_do_not_reach_an_entity():
    """Of the ten friends of the hub one may send: the friends of the others are not reached."""
    friends = [("hub", "knows", f"friend {number}") for number in range(10)]
    star = dataset_of([*friends, *((friend, "knows", f"far {number}") for number, (_, _, friend) in enumerate(friends))])
    model = untrained(star, senders=1)
    (found,) = model.rank([(star.entities.id("hub"), 0)]).candidates
    reached = {star.entities[entity] for entity in found.entities.tolist()}
    lost = [f"far {number}" for number in range(10) if f"far {number}" not in reached]
    assert lost
    (friend,) = [head for head, _, tail in star.labels_of(star.facts) if tail == lost[0]]
    places = [ordinal(place) for place in range(2, 12)]
    start = f"the walks to it were pruned at layer 2 of 2: {friend}, 1 hop before it, is "
    found_why = why_not(model, "hub", "knows", lost[0])
    assert found_why in [f"{start}{place} by priority, and they go on from 1 entity" for place in places]


def test_where_a_chain_is_pruned():
    """Of a chain of five the walks reach the third, if the hub's fifty friends are more promising or the first comes first."""
    friends = [("hub", "knows", f"friend {number}") for number in range(50)]
    chain = [("hub", "knows", "one"), ("one", "likes", "two"), ("two", "likes", "three")]
    dataset = dataset_of([*friends, *chain])
    ids = [dataset.entities.id(name) for name in ("hub", "one", "two", "three")]
    lost = []
    for seed in range(4):
        model = untrained(dataset, senders=2, layers=3, seed=seed)
        scorer = path_scorer_of(model.scorer)
        assert scorer is not None
        reached = {*model.rank([(ids[0], 0)]).candidates[0].entities.tolist()}
        pruned = scorer.pruned(ids[0], 0, ids[3])
        assert (pruned is None) == (ids[3] in reached)
        if pruned is not None:
            assert pruned.place is not None and pruned.place > pruned.kept == 2
            hops = 1 if ids[2] in reached else 2
            assert (pruned.hops, pruned.entity, pruned.layer) == (hops, ids[3 - hops], 4 - hops)
            lost.append(hops)
        assert scorer.pruned(ids[0], 0, ids[1]) is None or ids[1] not in reached  # the fact itself is hidden
    assert lost


def test_what_the_fan_out_cuts_is_not_pruned():
    """The hub walks a few of its fifty edges, though everybody may go on."""
    dataset = dataset_of([("hub", "knows", f"friend {number}") for number in range(50)])
    model, hub = untrained(dataset, senders=0, fan_out=5), dataset.entities.id("hub")
    reached = {*model.rank([(hub, 0)]).candidates[0].entities.tolist()}
    lost = next(number for number in range(50) if dataset.entities.id(f"friend {number}") not in reached)
    text = model.why_not((hub, 1, dataset.entities.id(f"friend {lost}")))
    assert text == "the paths to it are cut by the fan-out limit of 5 edges of an entity (propagation.fan_out)"


def test_a_head_is_its_own_answer_only_if_the_relation_has_loops():
    dataset = dataset_of(
        [("a", "likes", "a"), ("a", "likes", "b"), ("b", "likes", "c"), ("b", "knows", "a"), ("c", "knows", "b")]
    )
    model, ids = untrained(dataset), dataset.relation_ids
    likes, knows = dataset.relations.id("likes"), dataset.relations.id("knows")
    for relation, has_loops in ((likes, True), (ids.inverse(likes), True), (knows, False), (ids.inverse(knows), False)):
        for only_new in (False, True):
            (answers,) = answer_queries(model, [(dataset.entities.id("b"), relation)], k=9, num_paths=1, only_new=only_new)
            assert ("b" in [answer.entity for answer in answers]) == has_loops
            assert [answer.rank for answer in answers] == list(range(1, len(answers) + 1))
    (answers,) = answer_queries(model, [(dataset.entities.id("a"), likes)], k=9, num_paths=1, only_new=False)
    assert [answer.is_known for answer in answers if answer.entity == "a"] == [True]
