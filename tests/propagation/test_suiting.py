"""Settings of propagation that suit a graph: how its dev facts are held out decides what training hides."""

import numpy as np
import pytest
import torch

from hopwalk.config.settings import PropagationSettings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import MemoryLimitError
from hopwalk.propagation.model import Propagation
from hopwalk.propagation.parameters import numbers_of_model, numbers_of_query
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.suiting import (
    MOST_OF_BATCH,
    MOST_OF_MODEL,
    MOST_OF_TRAINING,
    suited_hiding,
    suited_propagation,
    suited_to_relations,
)
from hopwalk.propagation.training import PropagationLearner
from hopwalk.utils import memory
from tests.support.helpers import Fact, dataset_of
from tests.support.villages import VILLAGE


def couples(count: int) -> list[Fact]:
    """Pairs of entities with two facts each, one in either direction."""
    return [fact for n in range(count) for fact in ((f"a{n}", "likes", f"b{n}"), (f"b{n}", "knows", f"a{n}"))]


def strangers(count: int, relation: str = "likes") -> list[Fact]:
    """Facts between entities that no other fact connects."""
    return [(f"a{n}", relation, f"b{n + 1}") for n in range(count)]


def test_pairs_without_another_fact_in_dev_hide_all_between():
    assert suited_hiding(dataset_of(couples(80), strangers(60))) == "between"


def test_queries_without_known_answers_in_dev_hide_them_all():
    train: list[Fact] = [(f"h{n}", "has", f"t{(n + shift) % 90}") for n in range(80) for shift in (0, 1)]
    held_out: list[Fact] = [(f"t{n}", "has", f"h{n}") for n in range(60)]
    assert suited_hiding(dataset_of(train, held_out)) == "query"


def test_a_random_split_hides_the_fact():
    order = np.random.default_rng(0).permutation(160)
    facts = [couples(80)[row] for row in order]
    assert suited_hiding(dataset_of(facts[:100], facts[100:])) == "fact"


def test_few_dev_facts_say_nothing():
    assert len(VILLAGE.valid) < 50 and suited_hiding(VILLAGE) == "fact"


def test_sparse_graphs_are_walked_further():
    def layers(dataset: Dataset) -> int:
        return int(suited_propagation(dataset)["propagation.layers"])

    dense = dataset_of([(f"e{one}", "r", f"e{other}") for one in range(25) for other in range(25) if one != other])
    assert (layers(dense), layers(dataset_of(couples(80)))) == (3, 5)
    assert suited_propagation(dense)["propagation.queries"] == 6000


SMALL = PropagationSettings(layers=2, width=8, attention_width=4)  # as all tests: kernels are compiled for every width


def relations_of(number: int) -> Dataset:
    return dataset_of([(f"e{row % 50}", f"r{row}", f"e{row % 49}") for row in range(number)])


def test_usual_numbers_of_relations_change_nothing():
    settings = {"layers": 3, "queries": 60_000}
    for number in (2, 474, 2690):  # the last is FB15k's
        assert suited_to_relations(settings, number) == {}


@pytest.mark.parametrize("number", [20_000, 100_000, 400_000])
def test_very_many_relations_have_a_small_model_and_little_training(number: int):
    """What each query computes grows with the relations: 200,000 of them took 40 GB for the parameters alone."""
    given = {"layers": 5, "queries": 60_000}
    suited = PropagationSettings.model_validate(given | suited_to_relations(given, number))
    numbers, of_query = numbers_of_model(suited, number), numbers_of_query(suited, number)
    assert numbers <= MOST_OF_MODEL and suited.batch_size * of_query <= MOST_OF_BATCH
    assert suited.queries / suited.batch_size * (numbers + 2 * suited.batch_size * of_query) <= 1.01 * MOST_OF_TRAINING
    if number == 400_000:
        assert (suited.width, suited.layers) == (8, 2)


def test_parameters_are_counted():
    """As many as the model has, but for those that do not grow with layers and relations."""
    settings = PropagationSettings(layers=2, width=8, attention_width=4, query_rank=2, additive=True)
    model = Propagation(1000, settings, torch.Generator())
    own = sum(parameter.numel() for name, parameter in model.named_parameters() if name.startswith("relation_"))
    assert numbers_of_model(settings, 1000) == own


def test_training_that_cannot_fit_is_refused_before_it_begins(monkeypatch: pytest.MonkeyPatch):
    dataset = relations_of(60)
    scorer = PropagationScorer(len(dataset.entities), 60, SMALL, dataset.facts)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100_000)
    with pytest.raises(MemoryLimitError, match=r"training propagation over 60 relations takes .* propagation\.width"):
        PropagationLearner(scorer, dataset, SMALL)
    with pytest.raises(MemoryLimitError, match="a propagation model of 60 relations"):
        PropagationScorer(len(dataset.entities), 60, SMALL, dataset.facts)


def test_few_queries_at_once_where_relations_are_many(monkeypatch: pytest.MonkeyPatch):
    dataset = relations_of(60)
    scorer = PropagationScorer(len(dataset.entities), 60, SMALL, dataset.facts)
    assert scorer.queries_at_once == 64
    expected = scorer.score_reached(dataset.train.heads[:9], dataset.train.relations[:9])
    monkeypatch.setattr("hopwalk.propagation.scorer.MOST_NUMBERS", 4 * 2 * 120 * 12)
    assert scorer.queries_at_once == 4
    found = scorer.score_reached(dataset.train.heads[:9], dataset.train.relations[:9])
    assert (found.entities == expected.entities).all()
    assert np.allclose(found.scores, expected.scores, atol=1e-5)
