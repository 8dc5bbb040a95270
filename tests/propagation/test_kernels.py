"""The kernels against the plain model: scores, loss and gradients; threads, batches and pruning do not change them."""

from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import plain_propagation
from hopwalk.config.settings import PropagationSettings
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples
from hopwalk.propagation.forward import uniform
from hopwalk.propagation.graph import RunGraph, build_run_graph, kept_edge, num_kept
from hopwalk.propagation.model import Engine, Propagation
from hopwalk.propagation.parameters import Tasks
from hopwalk.propagation.queries import hidden_positions, plain_tasks

E, R = 40, 3
VARIANTS: dict[str, dict[str, Any]] = {
    "sum": {},
    "mean": {"aggregation": "mean"},
    "max": {"aggregation": "max"},
    "mean-max": {"aggregation": "mean-max"},
    "pruned": {"senders": 6},
    "additive": {"additive": True, "query_rank": 4},
    "counts": {"counts": True, "senders": 8},
    "degrees": {"degrees": True},
    "degrees and mean": {"degrees": True, "aggregation": "mean", "senders": 8},
}


def settings_of(name: str) -> PropagationSettings:
    values: dict[str, Any] = {"layers": 3, "width": 8, "attention_width": 4} | VARIANTS[name]
    return PropagationSettings(**values)


def graph_of(num_facts: int = 90, seed: int = 0) -> RunGraph:
    random = np.random.default_rng(seed)
    facts = np.unique(np.stack([random.integers(0, size, num_facts) for size in (E, R, E)], axis=1), axis=0).astype(np.int32)
    return build_run_graph(Triples(*facts.T.copy()), E, R)


def model_of(settings: PropagationSettings) -> Propagation:
    """A model each of whose parameters matters."""
    model = Propagation(2 * R, settings, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def tasks_of(graph: RunGraph, num_queries: int = 5) -> Tasks:
    """Queries with one to three targets, other known answers, and some hidden edges."""
    random = np.random.default_rng(2)
    hidden = [np.unique(random.integers(0, len(graph.tails), 4)) for _ in range(num_queries)]
    answers = [random.permutation(E)[:5].astype(np.int32) for _ in range(num_queries)]
    counts = random.integers(1, 4, num_queries)
    parts = (
        hidden,
        [one[:count] for one, count in zip(answers, counts, strict=True)],
        [one[count:] for one, count in zip(answers, counts, strict=True)],
    )
    ragged: Any = [
        column for part in parts for column in (np.cumsum([0, *map(len, part)]).astype(np.int64), np.concatenate(part))
    ]
    heads, relations = (random.integers(0, size, num_queries).astype(np.int32) for size in (E, 2 * R))
    return Tasks(*[heads, relations, *ragged, np.arange(num_queries)])


def gradients_of(model: Propagation) -> dict[str, torch.Tensor]:
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    return {name: gradient.clone() for name, gradient in found.items() if gradient is not None}


@pytest.mark.parametrize("name", VARIANTS)
def test_scores_loss_and_gradients_are_those_of_the_plain_model(name: str):
    settings, graph = settings_of(name), graph_of()
    model, tasks, engine = model_of(settings), tasks_of(graph), Engine(graph, settings, 1)
    scores, num_reached = model.score_all(engine, tasks)
    expected, is_reached = plain_propagation.scores(model, graph, tasks)
    assert num_reached.tolist() == is_reached.sum(dim=1).tolist()
    assert np.allclose(scores, expected.detach().numpy(), atol=2e-5)
    loss = model.mean_loss(engine, tasks)
    loss.backward()
    found = gradients_of(model)
    plain = plain_propagation.mean_loss(model, graph, tasks, torch.float64)
    plain.backward()
    assert loss.item() == pytest.approx(plain.item(), abs=2e-5)
    for key, gradient in gradients_of(model).items():
        assert torch.allclose(found[key], gradient, atol=2e-5 * max(1.0, float(gradient.abs().max()))), key


def test_gradients_of_the_plain_model_are_those_of_finite_differences():
    settings, graph = settings_of("mean-max"), graph_of()
    model, tasks = model_of(settings).double(), tasks_of(graph, 2)
    plain_propagation.mean_loss(model, graph, tasks, torch.float64).backward()
    gradients, random, step = gradients_of(model), np.random.default_rng(0), 1e-6
    for name, parameter in model.named_parameters():
        if not parameter.numel():
            continue
        place = int(random.integers(parameter.numel()))
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.view(-1)[place] += sign * step
                losses.append(plain_propagation.mean_loss(model, graph, tasks, torch.float64).item())
                parameter.view(-1)[place] -= sign * step
        gradient = gradients.get(name, torch.zeros_like(parameter)).view(-1)[place]
        assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(float(gradient), abs=1e-6), name


def test_bits_do_not_depend_on_the_number_of_threads():
    settings, graph = settings_of("counts"), graph_of()
    model, tasks = model_of(settings), tasks_of(graph, 9)
    results = []
    for num_threads in (1, 2, 3):
        engine = Engine(graph, settings, num_threads)
        model.mean_loss(engine, tasks).backward()
        results.append((model.score_all(engine, tasks)[0], gradients_of(model)))
    for scores, gradients in results[1:]:
        assert np.array_equal(scores, results[0][0])
        assert all(torch.equal(gradient, results[0][1][name]) for name, gradient in gradients.items())


def test_a_batch_is_its_queries_one_at_a_time():
    settings, graph = settings_of("max"), graph_of()
    model, engine = model_of(settings), Engine(graph, settings, 1)
    heads, relations = np.arange(6), np.arange(6) % (2 * R)
    together, _ = model.score_all(engine, plain_tasks(heads, relations))
    alone = [model.score_all(engine, plain_tasks(heads[row : row + 1], relations[row : row + 1]))[0][0] for row in range(6)]
    assert np.allclose(together, np.stack(alone), atol=1e-5)  # the batch size changes how torch rounds the parameters


def test_as_many_senders_as_nodes_are_no_pruning():
    graph = graph_of()
    settings = [settings_of("pruned").model_copy(update={"senders": senders}) for senders in (E, 10 * E, 6)]
    model, tasks = model_of(settings[0]), tasks_of(graph)
    scores = [model.score_all(Engine(graph, one, 1), tasks)[0] for one in settings]
    assert np.array_equal(scores[0], scores[1]) and not np.array_equal(scores[0], scores[2])


def test_sampled_gradients_of_negatives_have_the_right_mean():
    settings, graph = settings_of("sum"), graph_of()
    model, engine, tasks = model_of(settings), Engine(graph, settings, 1), tasks_of(graph, 1)
    model.mean_loss(engine, tasks).backward()
    exact, total = gradients_of(model)["weight"], torch.zeros(())
    for seed in range(400):
        model.mean_loss(engine, tasks._replace(seeds=np.array([seed])), threshold=0.2).backward()
        total = total + gradients_of(model)["weight"] / 400
    assert float((total - exact).norm() / exact.norm()) < 0.15


def test_hidden_edges_carry_no_message():
    graph = build_run_graph(Triples.of([(0, 0, 1), (1, 1, 2)]), 3, 2)
    settings = PropagationSettings(layers=2, width=8, attention_width=4)
    model, engine = model_of_relations(4, settings), Engine(graph, settings, 1)
    assert model.score_all(engine, plain_tasks(np.array([0]), np.array([1])))[1].tolist() == [3]
    edge = [np.array([position]) for position in range(len(graph.tails)) if graph.tails[position] == 2]
    assert model.score_all(engine, plain_tasks(np.array([0]), np.array([1]), edge))[1].tolist() == [2]


@pytest.mark.parametrize("name", ["mean", "degrees and mean"])
def test_hidden_facts_are_a_graph_without_them(name: str):
    """Numbers of edges must not tell that an edge is hidden: a training query would find its answer by it."""
    settings, random = settings_of(name), np.random.default_rng(3)
    rows = np.unique(np.stack([random.integers(0, size, 90) for size in (E, R, E)], axis=1), axis=0).astype(np.int32)
    facts = Triples(*rows.T.copy())
    is_hidden = random.random(len(facts)) < 0.1
    graph, model, nothing = build_run_graph(facts, E, R), model_of(settings), np.zeros(E, dtype=np.int32)
    hidden = hidden_positions(graph, [facts[is_hidden]], RelationIds(R))
    scores, _ = model.score_all(Engine(graph, settings, 1), plain_tasks(np.arange(E), nothing, hidden * E))
    rest = Engine(build_run_graph(facts[~is_hidden], E, R), settings, 1)
    assert np.allclose(scores, model.score_all(rest, plain_tasks(np.arange(E), nothing))[0], atol=1e-5)


def model_of_relations(num_directed: int, settings: PropagationSettings) -> Propagation:
    return Propagation(num_directed, settings, torch.Generator().manual_seed(0))


def kept_by_fan_out(graph: RunGraph, fan_out: int, seed: int) -> list[int]:
    """The edges that a fan-out keeps, one node and one run after the other."""
    kept = []
    for entity in range(graph.num_entities):
        first, last = graph.run_offsets[entity], graph.run_offsets[entity + 1]
        degree = int(graph.run_starts[last] - graph.run_starts[first])
        for run in range(first, last):
            start, end = graph.run_starts[run : run + 2].tolist()
            length, count = end - start, num_kept(end - start, degree, fan_out)
            offset = uniform(seed, run) if count < length else 0.0
            kept += [kept_edge(start, length, count, place, offset) for place in range(count)]
    return kept


@pytest.mark.parametrize("fan_out", [1, 4, 7])
def test_a_fan_out_is_the_graph_without_the_other_edges(fan_out: int):
    graph = graph_of(num_facts=300)
    settings = settings_of("max").model_copy(update={"fan_out": fan_out})
    model, tasks = model_of(settings), tasks_of(graph)
    kept = [kept_by_fan_out(graph, fan_out, int(seed)) for seed in tasks.seeds]
    degrees = np.diff(graph.run_starts[graph.run_offsets])
    assert all(len(own) == len({*own}) for own in kept) and degrees.max() > 7
    node_starts = graph.run_starts[graph.run_offsets]
    for own in kept:
        counts = np.diff(np.searchsorted(own, node_starts))
        assert (counts < fan_out + 2 * R).all() and (counts >= np.minimum(degrees, fan_out) - 2 * R).all()
    hidden = [
        np.union1d(tasks.hidden[start:end], np.setdiff1d(np.arange(len(graph.tails)), own))
        for start, end, own in zip(tasks.hidden_offsets, tasks.hidden_offsets[1:], kept, strict=False)
    ]
    without = tasks._replace(hidden_offsets=np.cumsum([0, *map(len, hidden)]), hidden=np.concatenate(hidden))
    everything = settings.model_copy(update={"fan_out": 0})
    scores, _ = model.score_all(Engine(graph, settings, 1), tasks)
    expected, _ = model.score_all(Engine(graph, everything, 1), without)
    assert np.array_equal(scores, expected)
    assert not np.array_equal(scores, model.score_all(Engine(graph, everything, 1), tasks)[0])
    losses = [model.mean_loss(Engine(graph, one, 1), own) for one, own in ((settings, tasks), (everything, without))]
    assert losses[0].item() == losses[1].item()


def test_a_large_fan_out_is_none():
    graph, settings = graph_of(), settings_of("sum")
    model, tasks = model_of(settings), tasks_of(graph)
    scores = [model.score_all(Engine(graph, settings.model_copy(update={"fan_out": one}), 1), tasks)[0] for one in (0, 10_000)]
    assert np.array_equal(scores[0], scores[1])


def test_a_loss_that_is_no_number_ends_the_batch():
    """NaN marks a query that is not done, so a NaN of the model itself must not be taken for one, for ever."""
    settings, graph = settings_of("sum"), graph_of()
    model = model_of(settings)
    with torch.no_grad():
        model.readout_bias.fill_(torch.nan)
    assert torch.isinf(model.mean_loss(Engine(graph, settings, 1), tasks_of(graph)))
