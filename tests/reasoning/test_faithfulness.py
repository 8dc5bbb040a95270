"""Faithfulness: numbers by hand for a model that counts walks; walkers and propagation on a planted rule; the random controls."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hopwalk import api
from hopwalk.data.dataset import Dataset
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import DataError, SettingsError
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.run import Run
from hopwalk.learning.scorer import PathScorer
from hopwalk.reasoning.faithfulness import Faithfulness, facts_of_paths, measure_faithfulness, strength
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.models import AnswerModel, PathIds, QueryIds, Ranking, ScorerModel
from hopwalk.reasoning.neighbourhood import FAR, Neighbourhood
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import Environment
from tests.support.commands import command, mistake
from tests.support.helpers import dataset_of
from tests.support.villages import VILLAGE

# a → x → b, a → y → b, a → z → c: by two hops of s, b is reached twice and c once. "far" facts are near neither.
TWICE = [("a", "s", "x"), ("x", "s", "b"), ("a", "s", "y"), ("y", "s", "b"), ("a", "s", "z"), ("z", "s", "c")]
FAR_AWAY = [(f"u{number}", "s", f"v{number}") for number in range(4)]


class Counting(AnswerModel):
    """The score of an entity is 1 and the number of walks of two hops of the first relation."""

    max_hops, ranks_by = 2, "the number of walks"

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.known = KnownAnswers([dataset.facts], len(dataset.entities), len(dataset.relations))

    def _walks(self, head: int, facts: Triples) -> list[tuple[int, int]]:
        hops = [(source, target) for source, relation, target in facts.array().tolist() if relation == 0]
        return [(middle, end) for source, middle in hops if source == head for between, end in hops if between == middle]

    def _scores(self, heads: Ids, graphs: Sequence[Triples]) -> NDArray[np.float32]:
        found = np.full((len(heads), len(self.dataset.entities)), -np.inf, dtype=np.float32)
        for row, (head, facts) in enumerate(zip(heads.tolist(), graphs, strict=True)):
            for _, end in self._walks(head, facts):
                found[row, end] = max(found[row, end], 1) + 1
        return found

    def score_all_tails(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> NDArray[np.float32]:
        return np.maximum(self._scores(heads, [self.dataset.facts] * len(heads)), 1)

    def scores_without(self, heads: Ids, relations: Ids, hidden: Sequence[Triples]) -> NDArray[np.float32]:
        return self._scores(heads, [without(self.dataset.facts, facts) for facts in hidden])

    def scores_with_only(self, heads: Ids, relations: Ids, facts: Sequence[Triples]) -> NDArray[np.float32]:
        return self._scores(heads, facts)

    def floors(self, heads: Ids, relations: Ids) -> NDArray[np.float32]:
        return np.ones(len(heads), dtype=np.float32)

    def rank(self, queries: Sequence[QueryIds], *, only_new: bool = False, k: int | None = None) -> Ranking:
        model = self

        class Counted(Ranking):
            def __init__(self) -> None:
                self.candidates = []

            def paths(self, chosen: Sequence[Sequence[int]], num_paths: int) -> list[list[list[PathIds]]]:
                walks = [model._walks(head, model.dataset.facts) for head, _ in queries]
                found: list[list[list[PathIds]]] = []
                for own, entities in zip(walks, chosen, strict=True):
                    steps = {one: [((0, middle), (0, end)) for middle, end in own if end == one] for one in entities}
                    found.append([[(path, 1.0) for path in steps[one][:num_paths]] for one in entities])
                return found

        return Counted()

    def rank_facts(self, facts: Triples) -> Ranking:
        raise NotImplementedError

    def with_data(self, dataset: Dataset, added: Triples) -> AnswerModel:
        raise NotImplementedError


def without(facts: Triples, hidden: Triples) -> Triples:
    gone = {tuple(fact) for fact in hidden.array().tolist()}
    return Triples.of(tuple(fact) for fact in facts.array().tolist() if tuple(fact) not in gone)


def test_numbers_by_hand():
    """The answer b of a has two walks: without one path it loses half, without both everything, and then all are level."""
    model = Counting(dataset_of(TWICE + FAR_AWAY, [], [("a", "wanted", "b"), ("a", "wanted", "c")]))
    both = measure_faithfulness(model, num_paths=2)
    assert (both.num_queries, both.num_answers, both.num_without_paths, both.facts_per_answer) == (2, 2, 0, 3.0)
    paths, only = both.effects["paths"], both.effects["only"]
    assert paths.drop == 1.0 and paths.hits_at_1 == 0.0  # neither b nor c is reached any more
    assert only.drop == 0.0 and only.hits_at_1 == 1.0
    one = measure_faithfulness(model, num_paths=1)
    assert one.effects["paths"].drop == pytest.approx((0.5 + 1) / 2) and one.facts_per_answer == 2
    assert one.effects["only"].drop == pytest.approx(0.5 / 2)
    assert one.effects["paths"].deciles[0] == 0.5 and one.effects["paths"].deciles[-1] == 1.0


def test_log_odds_and_ranks_by_hand():
    """Of entities 0 to 10, b has score 3, c 2 and the others 1; known answers are not rivals."""
    model = Counting(dataset_of(TWICE + FAR_AWAY, [], [("a", "wanted", "b"), ("a", "wanted", "c")]))
    num_others = len(model.dataset.entities) - 2  # the answers of the test are filtered
    found = measure_faithfulness(model, num_paths=2, num_queries=0).effects["paths"]
    falls = [3 - 1, 2 - 1]
    assert found.log_odds == pytest.approx(np.median(falls))
    assert found.mrr == pytest.approx(1 / (1 + num_others / 2))  # all are level: the mean rank


def test_scores_of_walkers_are_probabilities():
    """-inf for entities out of reach makes a share of probability, another floor a share of what is above it."""
    scores, floors = np.array([np.log(0.2), 5.0, -np.inf, 1.0]), np.array([-np.inf, 1.0, -np.inf, 3.0])
    assert strength(scores, floors).tolist() == pytest.approx([0.2, 4.0, 0.0, 0.0])


def test_facts_of_paths_have_the_direction_of_the_data():
    paths: list[PathIds] = [(((0, 5), (3, 6)), 0.5), (((0, 5), (1, 7)), 0.5)]
    assert facts_of_paths(4, paths, 2).array().tolist() == [[4, 0, 5], [6, 1, 5], [5, 1, 7]]


def test_random_facts_are_never_shown_ones_and_as_far_from_the_head():
    near = Neighbourhood(VILLAGE.facts, len(VILLAGE.entities))
    facts = {tuple(fact) for fact in VILLAGE.facts.array().tolist()}
    for head in range(0, 40, 5):
        distances = near.distances(head, 2)
        own = VILLAGE.facts[np.flatnonzero(VILLAGE.facts.heads == head)[:2]]
        answer = int(own.tails[-1])
        beyond = np.flatnonzero((VILLAGE.facts.heads == own.tails[0]) & (VILLAGE.facts.tails != head))[:1]
        shown = Triples.concatenate([own, VILLAGE.facts[beyond]])
        shown_facts = {tuple(fact) for fact in shown.array().tolist()}
        to_answer = near.distances(answer, 2)
        drawn = near.draw(head, answer, shown, 2, 4, np.random.default_rng(0))
        for nearby, between in zip(*drawn, strict=True):
            chosen = {tuple(fact) for fact in nearby.array().tolist()}
            assert len(chosen) == len(nearby) == len(shown) and chosen <= facts and not chosen & shown_facts
            depths = np.minimum(distances[nearby.heads], distances[nearby.tails])
            assert sorted(depths.tolist()) == sorted(np.minimum(distances[shown.heads], distances[shown.tails]).tolist())
            for source, relation, target in between.array().tolist():
                assert (source, relation, target) not in shown_facts
                walks = distances[source] + 1 + to_answer[target], distances[target] + 1 + to_answer[source]
                assert min(walks) <= 2
        again = near.draw(head, answer, shown, 2, 4, np.random.default_rng(0))
        for some, others in zip(drawn, again, strict=True):
            assert all(np.array_equal(one.array(), other.array()) for one, other in zip(some, others, strict=True))


def test_distances_by_hand():
    facts = Triples.of([(0, 0, 1), (2, 0, 1), (2, 0, 3), (4, 0, 5)])
    assert Neighbourhood(facts, 6).distances(0, 3).tolist() == [0, 1, 2, 3, FAR, FAR]
    assert Neighbourhood(facts, 6).distances(0, 1).tolist() == [0, 1, FAR, FAR, FAR, FAR]


def test_where_everything_is_reached_the_mean_stands_for_no_walk():
    """The score of entities out of reach is not trained then, and may be above all others."""
    offsets, entities = np.array([0, 2, 5]), np.array([0, 1, 0, 1, 2], dtype=np.int32)
    scores, unreached = (np.array(values, dtype=np.float32) for values in ([-4, -2, -9, -6, -3], [-7, 5]))
    reached = ReachedScores(offsets, entities, scores, unreached)
    assert reached.floors(3).tolist() == [-7, -6]


def test_too_few_other_facts_are_all_taken():
    facts = Triples.of([(0, 0, 1), (1, 0, 2), (0, 1, 2)])
    (nearby,), (between,) = Neighbourhood(facts, 3).draw(0, 2, facts[:2], 2, 1, np.random.default_rng(0))
    assert nearby.array().tolist() == between.array().tolist() == [[0, 1, 2]]


@pytest.fixture(scope="module", params=["propagation", "walker"])
def measured(request: pytest.FixtureRequest, propagation_run: Path, uncles_run: Path) -> tuple[AnswerModel, Faithfulness]:
    model = load_model(Run.open(propagation_run if request.param == "propagation" else uncles_run))
    return model, measure_faithfulness(model)


def test_answers_of_a_planted_rule_need_its_facts(measured: tuple[AnswerModel, Faithfulness]):
    """Uncles are brothers of the mother. Without the two facts of the rule they fall, without others they stay."""
    _, found = measured
    assert found.num_answers >= 8
    assert found.beats_nearby >= 0.9 and found.beats_between >= 0.9
    assert found.effects["paths"].drop > 0.5 > 0.2 > found.effects["nearby"].drop
    assert found.effects["paths"].hits_at_1 < 0.3 < 0.7 < found.effects["nearby"].hits_at_1
    assert found.effects["only"].hits_at_1 > 0.7


def test_the_same_seed_gives_the_same_numbers(measured: tuple[AnswerModel, Faithfulness]):
    model, found = measured
    assert measure_faithfulness(model).to_dict() == found.to_dict()
    other = measure_faithfulness(model, seed=1)
    assert other.effects["paths"] == found.effects["paths"] and other.effects["nearby"] != found.effects["nearby"]


def test_hidden_facts_are_as_if_they_were_not_in_the_graph(measured: tuple[AnswerModel, Faithfulness]):
    model, _ = measured
    queries = VILLAGE.test[:6]
    hidden = [VILLAGE.facts[first : first + 5 * first] for first in range(6)]
    found = model.scores_without(queries.heads, queries.relations, hidden)
    only = model.scores_with_only(queries.heads, queries.relations, [without(VILLAGE.facts, facts) for facts in hidden])
    for row, facts in enumerate(hidden):
        rest = on_facts(model, without(VILLAGE.facts, facts))
        expected = reached_scores(rest, queries[row : row + 1])[0]
        assert np.allclose(np.exp(found[row]), np.exp(expected), atol=1e-4, rtol=1e-3)
        assert np.allclose(np.exp(only[row]), np.exp(expected), atol=1e-4, rtol=1e-3)
    assert not np.allclose(np.exp(found), np.exp(reached_scores(model, queries)), atol=1e-3)


def reached_scores(model: AnswerModel, queries: Triples) -> NDArray[np.float32]:
    """The scores of all entities, -inf out of reach [Q, E]."""
    scores = model.score_all_tails(queries.heads, queries.relations)
    return scores.dense(len(model.dataset.entities), -np.inf) if isinstance(scores, ReachedScores) else scores


def on_facts(model: AnswerModel, facts: Triples) -> AnswerModel:
    """The same model on a graph of other facts."""
    if isinstance(model, WalkerModel):
        before = model.decoder.environment
        graph = build_graph(facts, before.graph.num_entities, before.graph.num_relations, model.decoder.settings.graph)
        return WalkerModel(Decoder(Environment(graph, before.policy, before.known), model.decoder.settings), model.dataset)
    assert isinstance(model, ScorerModel) and isinstance(model.scorer, PathScorer)
    return ScorerModel(model.scorer.with_graph(facts, len(model.dataset.entities)), model.dataset, "")


def test_an_embedding_model_has_no_paths_to_take_away(village_run: Path):
    model = load_model(Run.open(village_run / "scorer"))
    with pytest.raises(SettingsError, match="not made of walks alone"):
        model.scores_without(VILLAGE.test.heads[:1], VILLAGE.test.relations[:1], [VILLAGE.facts[:1]])
    with pytest.raises(SettingsError, match="not made of walks alone"):
        api.faithfulness(village_run / "scorer")


def test_without_right_answers():
    wrong = dataset_of(TWICE, [], [("b", "wanted", "a")])
    with pytest.raises(DataError, match="none of 1 test queries has a right answer at the top"):
        measure_faithfulness(Counting(wrong))
    with pytest.raises(DataError, match="no test queries"):
        measure_faithfulness(Counting(dataset_of(TWICE)))


def test_the_command_writes_numbers_chart_and_card(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = Path(shutil.copytree(uncles_run, tmp_path / "run"))
    before = (run / "card.md").read_text(encoding="utf-8")
    printed = command(capsys, "evaluate", str(run), "--faithfulness", "--queries", "12").out
    assert "without the shown paths" in printed and "answers are right, ranked first, and shown with paths" in printed
    shown = json.loads(command(capsys, "evaluate", str(run), "--faithfulness", "--queries", "12", "--json").out)
    assert shown == json.loads((run / "faithfulness-test.json").read_text(encoding="utf-8"))
    assert "<svg" in (run / "faithfulness-test.svg").read_text(encoding="utf-8")
    api.faithfulness(run, "valid", num_queries=12)
    api.faithfulness(run, num_queries=5)
    card = (run / "card.md").read_text(encoding="utf-8")
    assert card.startswith(before.rstrip("\n")) and card.count("\n## Faithfulness of the paths on ") == 2
    assert card.count("faithfulness-test.svg") == 1 == card.count("faithfulness-valid.svg")
    assert "--queries is for --faithfulness" in mistake(capsys, "evaluate", str(run), "--queries", "3")
