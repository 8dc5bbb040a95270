"""The policy network, against equations 2 to 4 worked out with gathered vectors."""

import pytest
import torch

from hopwalk.learning.optimizers import Optimizer
from hopwalk.walker.lstm import LSTMLayer
from tests.support.walks import environment_of, queries_of, rollouts_of, training_queries_of


def test_probabilities_are_those_of_equation_4():
    environment, pairs = environment_of(), [(0, 1), (1, 0)]
    policy, queries = environment.policy, queries_of(*pairs)
    actions = environment.step(environment.start(queries), queries, is_last=False)
    for row, (e_s, r_q) in enumerate(pairs):
        h = torch.cat([policy.relations[policy.relation_ids.start_id], policy.entities[e_s]])[None]
        for layer in policy.encoder:
            assert isinstance(layer, LSTMLayer)
            h, _ = layer(layer.input(h))
        state = torch.cat([policy.relations[r_q], policy.entities[e_s], h[0]])  # the order of W1's columns here
        action_query = policy.w2(torch.relu(policy.w1(state)))
        relations, tails = environment.graph.edges_from(e_s)
        vectors = torch.cat([policy.relations[relations.tolist()], policy.entities[tails.tolist()]], dim=1)
        expected = (vectors @ action_query).log_softmax(0)
        found = actions.log_probs[actions.offsets[row] : actions.offsets[row + 1]]
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("uses_entities", [True, False])
def test_precomputed_projections_change_nothing(uses_entities: bool):
    """Without gradients, projections of relations and entities are looked up; they are computed again after training."""
    environment, queries = environment_of(uses_entities=uses_entities), queries_of((0, 1), (1, 0))
    optimizer = Optimizer(environment.policy, "adam", 0.1)

    def log_probs() -> torch.Tensor:
        return environment.step(environment.start(queries), queries, is_last=False).log_probs

    for _ in range(2):
        environment.policy.train()
        log_probs()[0].backward()
        optimizer.step()
        environment.policy.eval()
        computed = log_probs()
        with torch.no_grad():
            looked_up = log_probs()
        assert torch.allclose(computed, looked_up, atol=1e-6)


def test_products_are_rounded_in_training_only():
    policies = [environment_of(precision=precision, history_layers=2) for precision in ("float32", "bfloat16")]
    queries = queries_of((0, 1), (1, 0))

    def log_probs() -> list[torch.Tensor]:
        starts = [environment.start(queries) for environment in policies]
        return [one.step(start, queries, is_last=False).log_probs for one, start in zip(policies, starts, strict=True)]

    exact, rounded = log_probs()
    assert not torch.equal(exact, rounded) and torch.allclose(exact, rounded, atol=0.01)
    for environment in policies:
        environment.policy.eval()
    exact, rounded = log_probs()
    assert torch.equal(exact, rounded)


def test_relations_only():
    environment, queries = environment_of(uses_entities=False), queries_of((0, 0))
    assert len(environment.policy.entities) == 0
    actions = environment.step(environment.start(queries), queries, is_last=False)
    both_children = actions.log_probs[actions.relations == 0]
    assert len(both_children) == 2 and both_children.unique().numel() == 1  # nothing tells them apart


def test_dropout_of_every_edge_has_the_mean_and_variance_of_masks():
    """Many draws of the products of a vector with masked embeddings, against the moments over all masks."""
    rate, draws = 0.4, 20_000
    policy = environment_of(dropout_masks="edge", embedding_dropout=rate).policy
    vector, relations, tails = torch.randn(8, generator=torch.Generator().manual_seed(3)), [0, 1, 4], [1, 1, 0]
    edges = torch.tensor(relations).repeat(draws), torch.tensor(tails).repeat(draws)
    with torch.no_grad():
        terms = torch.cat([policy.relations[relations], policy.entities[tails]], dim=1) * vector
        arguments = vector.repeat(draws, 1), 3 * torch.arange(draws + 1), *edges, torch.Generator().manual_seed(0)
        found = policy._noisy_products(*arguments).view(draws, 3)
    # A term is kept with a chance of 1 − rate and scaled up by its inverse.
    torch.testing.assert_close(found.mean(dim=0), terms.sum(dim=1), rtol=0, atol=0.03)
    torch.testing.assert_close(found.var(dim=0), terms.square().sum(dim=1) * rate / (1 - rate), rtol=0.06, atol=0)
    assert abs(float(torch.corrcoef(found.T)[0, 1])) < 0.03  # each edge has a mask of its own, also with the same tail


def test_masks_of_every_edge_differ_between_rollouts():
    """With masks of a walk, the rollouts of a query share their first step; with masks of every edge they do not."""
    for masks, num_distinct in (("walk", 1), ("edge", 10)):
        environment = environment_of(dropout_masks=masks, embedding_dropout=0.5, hidden_dropout=0.5)
        rollouts = rollouts_of(environment, training_queries_of(environment, (0, 0, 1)), hops=1, rollouts=10)
        assert len(rollouts.last.log_probs.view(10, -1).unique(dim=0)) == num_distinct


def test_without_dropout_the_masks_do_not_matter():
    queries = queries_of((0, 1), (1, 0))
    found = []
    for masks in ("walk", "edge"):
        environment = environment_of(dropout_masks=masks)
        generator = torch.Generator().manual_seed(0)
        found.append(environment.step(environment.start(queries, generator), queries, is_last=False, generator=generator))
    torch.testing.assert_close(found[0].log_probs, found[1].log_probs)
