"""NeuralLP and DRUM the slow way, for comparison: dense matrices in torch, and all walks one by one."""

from collections import defaultdict

import numpy as np
import torch
from torch import Tensor

from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples
from hopwalk.propagation.graph import RunGraph, build_run_graph, hidden_edges
from hopwalk.propagation.parameters import Tasks
from hopwalk.propagation.rule_kernels import Attentions
from hopwalk.propagation.rule_model import RuleEngine

Walk = tuple[tuple[int, int], ...]  # relation, entity


def engine_of(facts: Triples, num_entities: int, num_relations: int, num_hops: int, num_threads: int = 1) -> RuleEngine:
    inverses = RelationIds(num_relations).inverse(np.arange(2 * num_relations)).astype(np.int32)
    return RuleEngine(build_run_graph(facts, num_entities, num_relations), inverses, num_hops, num_threads)


def edges_of(engine: RuleEngine, facts: Triples) -> np.ndarray:
    """The positions of the edges of facts and their inverses, sorted."""
    offsets = np.arange(len(facts) + 1, dtype=np.int64)
    inverses = engine.inverses[facts.relations]
    columns = facts.heads, facts.relations, inverses, offsets, facts.tails
    return np.unique(hidden_edges(engine.graph, *columns, all_between=False)[1])


def visible_edges(graph: RunGraph, hidden: np.ndarray) -> list[tuple[int, int, int]]:
    """Source, relation and target of every edge that is not hidden."""
    return [
        (source, int(graph.run_relations[run]), int(graph.tails[edge]))
        for source in range(graph.num_entities)
        for run in range(graph.run_offsets[source], graph.run_offsets[source + 1])
        for edge in range(graph.run_starts[run], graph.run_starts[run + 1])
        if edge not in hidden
    ]


def hidden_of(tasks: Tasks, query: int) -> np.ndarray:
    return tasks.hidden[tasks.hidden_offsets[query] : tasks.hidden_offsets[query + 1]]


def dense_probabilities(graph: RunGraph, head: int, hidden: np.ndarray, operators: Tensor, memories: Tensor) -> Tensor:
    """The probabilities of all entities for a query [E], with one matrix for each operator."""
    num_entities, (num_ranks, num_hops, num_operators) = graph.num_entities, operators.shape
    matrices = torch.zeros(num_operators, num_entities, num_entities, dtype=torch.float64)
    for source, relation, target in visible_edges(graph, hidden):
        matrices[relation, target, source] = 1.0
    matrices[-1] = torch.eye(num_entities)
    found = torch.zeros(num_entities, dtype=torch.float64)
    for rank in range(num_ranks):
        u = [torch.nn.functional.one_hot(torch.tensor(head), num_entities).double()]
        for step in range(num_hops):
            read = torch.stack([memories[rank, step, memory] * u[memory] for memory in range(step + 1)]).sum(0)
            written = torch.einsum("k,kij,j->i", operators[rank, step], matrices, read)
            u.append(written / written.sum().clamp(min=1e-20))
        found = found + torch.stack([memories[rank, num_hops, memory] * one for memory, one in enumerate(u)]).sum(0)
    return found / num_ranks


def dense_loss(graph: RunGraph, tasks: Tasks, attentions: Attentions) -> Tensor:
    """The mean over queries of the mean over targets of −log p."""
    losses = []
    for query, head in enumerate(tasks.heads.tolist()):
        each = attentions.operators[query], attentions.memories[query]
        p = dense_probabilities(graph, head, hidden_of(tasks, query), *each)
        targets = tasks.targets[tasks.target_offsets[query] : tasks.target_offsets[query + 1]]
        losses.append(-p[torch.from_numpy(targets).long()].clamp(min=1e-20).log().mean())
    return torch.stack(losses).mean()


def weights_of_walks(
    edges: list[tuple[int, int, int]], head: int, operators: np.ndarray, memories: np.ndarray
) -> dict[Walk, float]:
    """The term of every walk in the probability of its end; the memories are kept walk by walk."""
    leaving = defaultdict(list)
    for source, relation, target in edges:
        leaving[source].append((relation, target))
    found: dict[Walk, float] = defaultdict(float)
    for a, b in zip(operators, memories, strict=True):
        u: list[dict[Walk, float]] = [{(): 1.0}]
        for step in range(len(a)):
            written: dict[Walk, float] = defaultdict(float)
            for memory in range(step + 1):
                for walk, weight in u[memory].items():
                    read = b[step, memory] * weight
                    written[walk] += a[step, -1] * read
                    for relation, target in leaving[walk[-1][1] if walk else head]:
                        written[*walk, (relation, target)] += a[step, relation] * read
            total = sum(written.values())
            u.append({walk: weight / total for walk, weight in written.items()})
        for memory, walks in enumerate(u):
            for walk, weight in walks.items():
                found[walk] += b[-1, memory] * weight / len(operators)
    return found
