"""The policy network, against equations 2 to 4 worked out with gathered vectors."""

import pytest
import torch

from hopwalk.learning.optimizers import Optimizer
from hopwalk.walker.lstm import LSTMLayer
from tests.support.walks import environment_of, queries_of


def test_probabilities_are_those_of_equation_4():
    environment, pairs = environment_of(), [(0, 1), (1, 0)]
    policy, queries = environment.policy, queries_of(*pairs)
    actions = environment.step(environment.start(queries), queries, is_last=False)
    for row, (e_s, r_q) in enumerate(pairs):
        h = torch.cat([policy.relations[policy.relation_ids.start_id], policy.entities[e_s]])[None]
        for layer in policy.encoder:
            assert isinstance(layer, LSTMLayer)
            h, _ = layer(layer.input(h), torch.zeros(1, 6), torch.zeros(1, 6), None)
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


def test_relations_only():
    environment, queries = environment_of(uses_entities=False), queries_of((0, 0))
    assert len(environment.policy.entities) == 0
    actions = environment.step(environment.start(queries), queries, is_last=False)
    both_children = actions.log_probs[actions.relations == 0]
    assert len(both_children) == 2 and both_children.unique().numel() == 1  # nothing tells them apart
