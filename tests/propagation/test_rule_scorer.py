"""NeuralLP and DRUM as scorers: they learn and name a planted rule, resume to the same bits, and serve wherever scorers do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk import api
from hopwalk.config.loading import load_settings
from hopwalk.config.settings import RuleSettings, Settings, changed
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError, UnknownNameError
from hopwalk.learning.run import Run
from hopwalk.propagation.rule_scorer import LEAST, RuleScorer, soft_rules
from hopwalk.scorers.models import build_any_scorer
from tests.support.helpers import dataset_of
from tests.support.stopping import StopAt, Stopped, result_of
from tests.support.villages import VILLAGE, settings_of, train_walker

TINY = {
    "rules.hops": 2,
    "rules.rank": 2,
    "rules.dimension": 8,
    "rules.hidden_dimension": 8,
    "rules.queries": 3000,
    "rules.evaluations": 3,
    "rules.learning_rate": 0.03,
    "rules.batch_size": 32,
}
UNCLE = VILLAGE.relations.id("uncle")


def tiny(model: str, **values: object) -> Settings:
    return changed(settings_of(), {"scorer.model": model} | TINY | {f"rules.{name}": value for name, value in values.items()})


@pytest.fixture(scope="module", params=["neural-lp", "drum"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return api.train_scorer(VILLAGE, tiny(request.param), out=tmp_path_factory.mktemp("rules") / "run").path


@pytest.fixture(scope="module")
def scorer(trained: Path) -> RuleScorer:
    loaded = hopwalk.load_scorer(trained)
    assert isinstance(loaded, RuleScorer)
    return loaded


def test_it_learns_a_rule_of_two_hops(trained: Path):
    """Uncles are brothers of the mother: two hops, and nothing else tells them."""
    assert api.evaluate(trained)["scorer"].tails.mrr > 0.9


def test_the_planted_rule_is_the_first_soft_rule(scorer: RuleScorer):
    rules = soft_rules(scorer, VILLAGE.relations, UNCLE, num_rules=5)
    assert rules[0].head == ("uncle", False) and rules[0].body == (("mother", False), ("brother", False))
    weights = [rule.weight for rule in rules]
    assert weights == sorted(weights, reverse=True) and weights[0] > 3 * weights[1] and sum(weights) <= 1


def test_soft_rules_of_an_inverse_go_the_other_way(scorer: RuleScorer):
    inverse = scorer.relation_ids.inverse(UNCLE)
    first = soft_rules(scorer, VILLAGE.relations, inverse, num_rules=1)[0]
    assert first.head == ("uncle", True) and first.body == (("brother", True), ("mother", True))


def test_scores_of_triples_and_of_reached_entities_are_those_of_all_tails(scorer: RuleScorer):
    heads, relations, tails = torch.tensor([3, 5, 3, 0]), torch.tensor([2, 0, 2, 5]), torch.tensor([1, 7, 9, 2])
    every = scorer.score_all_tails(heads, relations)
    assert torch.equal(scorer.score_triples(heads, relations, tails), every[torch.arange(4), tails])
    assert every.exp().sum(dim=1).tolist() == pytest.approx([1] * 4, abs=1e-5)
    reached = scorer.score_reached(heads.numpy(), relations.numpy())
    for query in range(4):
        row = np.full(scorer.num_entities, reached.unreached[query])
        part = slice(reached.offsets[query], reached.offsets[query + 1])
        row[reached.entities[part]] = reached.scores[part]
        assert np.allclose(row, every[query].numpy(), atol=1e-6)


def test_more_queries_than_are_held_at_once(scorer: RuleScorer):
    heads = np.arange(80, dtype=np.int32) % scorer.num_entities
    relations = np.full(80, UNCLE, dtype=np.int32)
    reached, every = scorer.score_reached(heads, relations), scorer.numpy_scores(heads, relations)
    counts = (every > np.log(LEAST) + 1e-3).sum(axis=1)
    assert np.diff(reached.offsets).tolist() == counts.tolist()
    hidden = [VILLAGE.facts[VILLAGE.facts.heads == head] for head in heads]
    assert (np.diff(scorer.score_reached(heads, relations, hidden).offsets) < counts).any()


def test_no_queries(scorer: RuleScorer):
    nothing = np.empty(0, dtype=np.int32)
    assert scorer.score_reached(nothing, nothing).offsets.tolist() == [0]
    assert scorer.score_all_tails(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)).shape[0] == 0


def test_the_planted_rule_is_the_path_behind_an_answer(scorer: RuleScorer):
    names = [VILLAGE.relations[id_] for id_ in range(len(VILLAGE.relations))]
    rules = []
    for head, relation, tail in VILLAGE.test.array()[:12].tolist():
        (paths,) = scorer.paths_behind(head, relation, [tail])
        assert [path.drop for path in paths] == sorted((path.drop for path in paths), reverse=True)
        assert all(path.steps[-1][1] == tail for path in paths) and sum(path.share for path in paths) <= 1 + 1e-6
        assert paths[0].share == pytest.approx(
            paths[0].drop / float(scorer.score_all_tails(torch.tensor([head]), torch.tensor([relation]))[0, tail].exp()), rel=1e-4
        )
        rules.append([names[step] if step < len(names) else f"{names[step - len(names)]}⁻¹" for step, _ in paths[0].steps])
    assert rules.count(["mother", "brother"]) >= 10


def test_a_hidden_fact_carries_no_path(scorer: RuleScorer):
    head, relation, tail = VILLAGE.test.array()[0].tolist()
    (paths,) = scorer.paths_behind(head, relation, [tail], num_paths=1)
    (link, middle), _ = paths[0].steps
    inverted = Triples.of([(middle, scorer.relation_ids.inverse(link), head)])  # the fact may be given from either end
    (others,) = scorer.paths_behind(head, relation, [tail], num_paths=100, hidden=inverted)
    assert all(path.steps[0] != (link, middle) for path in others)


def small_scorer(*facts: tuple[int, int, int], num_entities: int, hops: int = 2) -> RuleScorer:
    settings = RuleSettings(hops=hops, dimension=4, hidden_dimension=4)
    return RuleScorer(num_entities, 2, settings, Triples.of(facts))


def test_an_entity_out_of_reach():
    scorer = small_scorer((0, 0, 1), (1, 1, 2), (2, 0, 3), num_entities=5)
    scores = scorer.score_all_tails(torch.tensor([0]), torch.tensor([1]))[0]
    assert scores[3:].tolist() == pytest.approx([np.log(LEAST)] * 2) and bool((scores[:3] > -20).all())
    assert [len(paths) for paths in scorer.paths_behind(0, 1, [2, 3, 4])] == [1, 0, 0]
    everything = Triples.of([(0, 0, 1)])
    assert scorer.paths_behind(0, 1, [1, 2], hidden=everything) == [[], []]
    assert scorer.score_reached(np.array([0]), np.array([1]), [everything]).entities.tolist() == [0]


def test_an_entity_without_facts():
    scorer = small_scorer((0, 0, 1), num_entities=3)
    assert scorer.score_all_tails(torch.tensor([2]), torch.tensor([0]))[0, :2].tolist() == pytest.approx([np.log(LEAST)] * 2)


def test_the_same_model_on_a_graph_with_a_new_entity(scorer: RuleScorer):
    """A new child of a known mother has her brothers as uncles; the old graph stays as it is."""
    child = VILLAGE.entities.id("child 0")
    mother_of = VILLAGE.relations.id("mother")
    rows = (VILLAGE.facts.heads == child) & (VILLAGE.facts.relations == mother_of)
    mother, new = int(VILLAGE.facts.tails[rows][0]), scorer.num_entities
    facts = Triples.concatenate([VILLAGE.facts, Triples.of([(new, mother_of, mother)])])
    other = scorer.with_graph(facts, new + 1)
    assert other.max_hops == scorer.max_hops == 2 and other.num_entities == new + 1 and other.calibration == scorer.calibration
    best = int(other.numpy_scores(np.array([new]), np.array([UNCLE]))[0].argmax())
    sisters = (VILLAGE.facts.heads == mother) & (VILLAGE.facts.relations == VILLAGE.relations.id("brother"))
    assert best in VILLAGE.facts.tails[sisters].tolist()
    with pytest.raises(IndexError):
        scorer.paths_behind(0, UNCLE, [new])
    with pytest.raises(DataError, match="more than"):
        scorer.with_graph(facts, new)


def test_hidden_facts_are_given_for_every_query(scorer: RuleScorer):
    with pytest.raises(ValueError, match="each of 2 queries"):
        scorer.score_reached(np.array([0, 1]), np.array([0, 0]), [VILLAGE.facts])


@pytest.mark.parametrize("model", ["neural-lp", "drum"])
def test_a_killed_training_resumes_to_the_same_bits(tmp_path: Path, model: str, checkpoints: None):
    settings = tiny(model, queries=600)
    whole = api.train_scorer(VILLAGE, settings, out=tmp_path / "whole")
    with pytest.raises(Stopped):
        api.train_scorer(VILLAGE, settings, out=tmp_path / "run", callbacks=[StopAt(3, 2)])
    run = api.train_scorer(VILLAGE, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(Run.open(whole.path))


def test_it_rewards_a_walker(tmp_path: Path, trained: Path):
    run = train_walker(VILLAGE, settings_of({"walker.epochs": 1}), out=tmp_path / "run", scorer=trained)
    assert run.is_finished and {*api.evaluate(run.path)} == {"policy"}


def test_it_is_a_calibrated_member_of_an_ensemble(tmp_path: Path, trained: Path, village_run: Path, scorer: RuleScorer):
    assert Run.open(trained).about["reliability"] and scorer.calibration.slope > 0
    both = api.combine_scorers([trained, village_run / "scorer"], out=tmp_path / "both")
    assert api.evaluate(both.path)["scorer"].tails.mrr > 0.5


def test_without_training_queries(tmp_path: Path):
    empty = dataset_of([("a", "r", "b")])
    with pytest.raises(DataError, match="no training queries"):
        api.train_scorer(replace(empty, train=empty.train[:0]), tiny("drum"), out=tmp_path / "run")


@pytest.mark.parametrize(("name", "is_drum"), [("NeuralLP", False), ("neural_lp", False), ("DRUM", True)])
def test_other_ways_to_write_their_names(name: str, is_drum: bool):
    scorer = build_any_scorer(VILLAGE, tiny(name))
    assert isinstance(scorer, RuleScorer) and scorer.model.is_drum == is_drum
    assert len(scorer.model.lstms) == (2 if is_drum else 1)


def test_a_misspelt_name_is_suggested():
    with pytest.raises(UnknownNameError, match="neural-lp"):
        build_any_scorer(VILLAGE, tiny("neural-pl"))


def test_the_same_seed_gives_the_same_parameters_whatever_the_global_generator():
    torch.manual_seed(1)
    one = build_any_scorer(VILLAGE, tiny("drum")).state_dict()
    torch.manual_seed(2)
    other = build_any_scorer(VILLAGE, tiny("drum")).state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("data", ["umls", "kinship", "fb15k-237", "wn18rr", "nell-995"])
@pytest.mark.parametrize("model", ["neural-lp", "drum"])
def test_recipes(data: str, model: str):
    """A recipe of its own for every benchmark; other scorers have the defaults."""
    assert load_settings(data, overrides=[f"scorer.model={model}"]).rules != RuleSettings()
    assert load_settings(data, overrides=["scorer.model=complex"]).rules == RuleSettings()
