"""A family of five to walk, its queries, and all its paths by enumeration."""

import itertools
from typing import Any

import torch
from torch import Tensor

from hopwalk.config.settings import GraphSettings, WalkerSettings
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.walker.environment import ActionSpace, Environment, Queries, training_queries
from hopwalk.walker.policy import Policy
from hopwalk.walker.rollout import Rollouts, roll_out

# 0 has the children 1 and 2, 1 the child 3, 2 the child 4; 0 lives with 1. Relations: 0 parent_of, 1 lives_with, 2 and 3 their
# inverses, 4 stay, 5 start.
FACTS = Triples.of([(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 4), (0, 1, 1)])
SMALL = WalkerSettings(dimension=4, history_dimension=6, history_layers=2, embedding_dropout=0.0, hidden_dropout=0.0)


def environment_of(facts: Triples = FACTS, num_entities: int = 5, num_relations: int = 2, **changes: Any) -> Environment:
    """The graph of the facts, with an untrained policy without dropout."""
    settings = SMALL.model_copy(update=changes)
    graph = build_graph(facts, num_entities, num_relations, GraphSettings())
    known = KnownAnswers([facts], num_entities, num_relations)
    return Environment(graph, Policy(num_entities, num_relations, settings), known)


def queries_of(*pairs: tuple[int, int]) -> Queries:
    """Queries (head, relation, ?)."""
    return Queries(*torch.tensor(pairs, dtype=torch.int64).t())


def training_queries_of(environment: Environment, *triples: tuple[int, int, int]) -> Queries:
    """Facts as training queries, with their edges hidden."""
    facts = Triples.of(triples)
    return training_queries(environment.graph, facts.heads, facts.relations, facts.tails)


def actions_by_walk(actions: ActionSpace) -> list[set[tuple[int, int]]]:
    """The actions (relation, tail) of every walk."""
    edges = list(zip(actions.relations.tolist(), actions.tails.tolist(), strict=True))
    return [set(edges[start:end]) for start, end in itertools.pairwise(actions.offsets.tolist())]


def all_paths(environment: Environment, query: Queries, hops: int) -> list[tuple[list[tuple[int, int]], Tensor]]:
    """Every path of one query with its log-probability, by walking all of them."""
    states = environment.start(query)
    found: list[tuple[list[tuple[int, int]], Tensor]] = [([], torch.zeros(()))]
    for hop in range(hops):
        actions = environment.step(states, query, is_last=hop == hops - 1)
        walks = actions.walks
        edges = list(zip(actions.relations.tolist(), actions.tails.tolist(), strict=True))
        found = [([*found[walks[n]][0], edges[n]], found[walks[n]][1] + actions.log_probs[n]) for n in range(len(edges))]
        if hop < hops - 1:
            states = environment.transition(states, actions, torch.arange(len(edges)), walks=walks)
    return found


def rollouts_of(environment: Environment, queries: Queries, *, hops: int, rollouts: int, rate: float = 0.0) -> Rollouts:
    """Sampled walks, the same every time, with action dropout at this rate."""
    generator = torch.Generator().manual_seed(0)
    return roll_out(
        environment,
        queries,
        hops=hops,
        rollouts=rollouts,
        action_dropout_rate=rate,
        generator=generator,
    )
