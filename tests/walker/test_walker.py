"""The walker: rows, steps, rollouts, gradient and beam search, against what can be worked out by hand or enumerated."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hopwalk.config.settings import GraphSettings, WalkerSettings
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.learning.optimizers import Optimizer
from hopwalk.walker import environment as steps
from hopwalk.walker import ragged
from hopwalk.walker.beam import beam_search
from hopwalk.walker.counting import DistinctCount
from hopwalk.walker.edge_scores import _Dense, _Sampled
from hopwalk.walker.environment import ActionSpace, Queries, Environment, States, training_queries
from hopwalk.walker.lstm import LSTMLayer
from hopwalk.walker.policy import Policy
from hopwalk.walker.reinforce import Baseline, policy_loss
from hopwalk.walker.rollout import roll_out

# Five people: 0 has the children 1 and 2, 1 the child 3, 2 the child 4; 0 lives with 1. Relations: 0 parent_of, 1 lives_with.
FACTS = Triples.of([(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 4), (0, 1, 1)])
SMALL = WalkerSettings(
    dimension=4, history_dimension=6, history_layers=2, guidance=0.0, embedding_dropout=0.0, hidden_dropout=0.0
)


def walker_of(facts: Triples = FACTS, num_entities: int = 5, num_relations: int = 2, **changes: Any) -> Environment:
    settings = SMALL.model_copy(update=changes)
    graph = build_graph(facts, num_entities, num_relations, GraphSettings())
    known = KnownAnswers([facts], num_entities, num_relations)
    return Environment(graph, Policy(num_entities, num_relations, settings), known)


def asked(*pairs: tuple[int, int]) -> Queries:
    return Queries(*torch.tensor(pairs, dtype=torch.int64).t())


def asked_with_answers(walker: Environment, *triples: tuple[int, int, int]) -> Queries:
    facts = Triples.of(triples)
    return training_queries(walker.graph, facts.heads, facts.relations, facts.tails)


def choices_by_walk(choices: ActionSpace) -> list[set[tuple[int, int]]]:
    edges = list(zip(choices.relations.tolist(), choices.tails.tolist(), strict=True))
    return [set(edges[start:end]) for start, end in itertools.pairwise(choices.offsets.tolist())]


# Ragged rows


OFFSETS = torch.tensor([0, 3, 4, 8])


def test_ragged_softmax_and_its_gradient():
    logits = torch.tensor([1.0, 2.0, 3.0, 7.0, 0.0, 0.0, 80.0, -80.0], requires_grad=True)
    found = ragged.log_softmax(logits, OFFSETS)
    rows = [logits[start:end].log_softmax(0) for start, end in itertools.pairwise(OFFSETS.tolist())]
    assert torch.allclose(found, torch.cat(rows))
    weights = torch.arange(8.0)
    ours = torch.autograd.grad((found * weights).sum(), logits, retain_graph=True)[0]
    theirs = torch.autograd.grad((torch.cat(rows) * weights).sum(), logits)[0]
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_best_of_rows():
    values = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0, 9.0, 7.0, 8.0])
    positions, counts = ragged.top_of_rows(values, OFFSETS, 2)
    assert positions.tolist() == [1, 2, 3, 5, 7] and counts.tolist() == [2, 1, 2]


def test_rows_repeated():
    taken, offsets = ragged.repeat_rows(OFFSETS, 2)
    assert taken.tolist() == [0, 1, 2, 0, 1, 2, 3, 3, 4, 5, 6, 7, 4, 5, 6, 7] and offsets.tolist() == [0, 3, 6, 7, 8, 12, 16]


def test_draws_have_the_frequencies_of_the_weights():
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([0.1, 0.2, 0.7, 5.0, 1.0, 1.0, 0.0, 2.0])
    drawn = torch.stack([ragged.sample(weights, OFFSETS, generator) for _ in range(4000)])
    frequencies = torch.bincount(drawn.flatten(), minlength=8) / 4000
    assert torch.allclose(frequencies, torch.tensor([0.1, 0.2, 0.7, 1.0, 0.25, 0.25, 0.0, 0.5]), atol=0.03)


def test_action_dropout_frequencies():
    """With m dropped at rate α, an edge is drawn as `π · m + ε` says: worked out here over all masks."""
    generator, rate = torch.Generator().manual_seed(1), 0.6
    probs = torch.tensor([0.5, 0.3, 0.2])
    expected = torch.zeros(3)
    for mask in itertools.product([0.0, 1.0], repeat=3):
        kept = torch.tensor(mask)
        weights = probs * kept + ragged.FLOOR
        chance = rate ** (3 - sum(mask)) * (1 - rate) ** sum(mask)
        expected += chance * weights / weights.sum()
    offsets = torch.arange(0, 3 * 20_001, 3)
    weights = ragged.dropped_out(probs.repeat(20_000), rate, generator)
    drawn = ragged.sample(weights, offsets, generator) - offsets[:-1]
    assert torch.allclose(torch.bincount(drawn, minlength=3) / 20_000, expected, atol=0.015)


@pytest.mark.parametrize("kind", [_Dense, _Sampled])
def test_edge_scores_and_their_gradients(kind: Any):
    torch.manual_seed(0)
    vectors, table = torch.randn(3, 5, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    columns = torch.tensor([0, 3, 3, 1, 2, 0, 1, 2])
    rows = ragged.rows_of(OFFSETS)
    expected = (vectors[rows] * table[columns]).sum(1)
    found = kind.apply(vectors, table, OFFSETS, columns)
    assert torch.allclose(found, expected, atol=1e-6)
    weights = torch.randn(8)
    ours = torch.autograd.grad((found * weights).sum(), (vectors, table))
    theirs = torch.autograd.grad((expected * weights).sum(), (vectors, table))
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(ours, theirs, strict=True))


# One step


def test_edges_are_found():
    graph = walker_of().graph
    ids = [np.array(column, dtype=np.int32) for column in ([0, 0, 1, 3, 0, 4], [0, 1, 2, 2, 0, 4], [2, 1, 0, 1, 3, 4])]
    found = graph.edge_positions(*ids)
    for head, relation, tail, position in zip(*ids, found, strict=True):
        start = graph.offsets[head]
        edges = list(zip(*(part.tolist() for part in graph.edges_from(head)), strict=True))
        assert position == (start + edges.index((relation, tail)) if (relation, tail) in edges else -1)


def test_the_asked_edge_and_its_inverse_cannot_be_walked():
    walker = walker_of()
    queries = asked_with_answers(walker, (0, 0, 1))
    walks = walker.begin(queries)
    first = walker.step(walks, queries, is_last=False)
    assert choices_by_walk(first) == [{(0, 2), (1, 1), (4, 0)}]  # not (0, 1); 4 is the stay relation
    chosen = torch.tensor([first.tails.tolist().index(1)])
    second = walker.step(walker.take(walks, first, chosen, torch.tensor([0])), queries, is_last=False)
    assert choices_by_walk(second) == [{(0, 3), (3, 0), (4, 1)}]  # not (2, 0), the inverse


def test_shortcuts_cannot_be_walked_where_they_are_hidden():
    walker = walker_of()
    columns = (np.array([id_], dtype=np.int32) for id_ in (0, 0, 1))
    queries = training_queries(walker.graph, *columns, hides_shortcuts=True)
    walks = walker.begin(queries)
    first = walker.step(walks, queries, is_last=False)
    assert choices_by_walk(first) == [{(0, 2), (4, 0)}]  # neither (0, 1), which is asked, nor (1, 1)
    at_answer = States(walks.queries, torch.tensor([1]), walks.memory)
    second = walker.step(at_answer, queries, is_last=False)
    assert choices_by_walk(second) == [{(0, 3), (4, 1)}]  # neither (2, 0) nor (3, 0): the way back


@pytest.mark.parametrize("num_facts", [0, 1, 40])
def test_edges_between_are_all_but_stay_edges(num_facts: int):
    drawn = np.random.default_rng(num_facts).integers(0, 5, (num_facts, 3)).astype(np.int32)  # self-loops among them
    graph = build_graph(Triples.of(sorted({tuple(fact) for fact in drawn.tolist()})), 5, 5)
    heads, tails = (column.ravel().astype(np.int32) for column in np.indices((5, 5)))
    found = graph.edges_between(heads, tails)
    assert len(found) == 25
    for head, tail, row in zip(heads, tails, found, strict=True):
        own = range(graph.offsets[head], graph.offsets[head + 1] - 1)  # the last one is the stay edge
        assert [place for place in row if place >= 0] == [place for place in own if graph.tails[place] == tail]
    assert graph.edges_between(heads[:0], tails[:0]).shape == (0, 0)


def test_other_answers_are_blocked_on_the_last_hop():
    walker = walker_of()
    queries = asked_with_answers(walker, (0, 0, 1))
    last = walker.step(walker.begin(queries), queries, is_last=True)
    assert choices_by_walk(last) == [{(1, 1), (4, 0)}]  # 2 is another child of 0
    plain = asked((0, 0))
    assert choices_by_walk(walker.step(walker.begin(plain), plain, is_last=True)) == [{(4, 0)}]
    shown = walker.step(walker.begin(plain), plain, is_last=True, blocks_known=False)
    assert choices_by_walk(shown) == [{(0, 1), (0, 2), (1, 1), (4, 0)}]


def test_a_walk_that_may_go_nowhere_stays():
    """A fact from an entity to itself: staying there reaches a known answer, and so do all other edges."""
    walker = walker_of(Triples.of([(0, 0, 0), (0, 0, 1)]), 2, 1)
    queries = asked_with_answers(walker, (0, 0, 1))
    last = walker.step(walker.begin(queries), queries, is_last=True)
    assert choices_by_walk(last) == [{(2, 0)}] and last.log_probs.tolist() == [0.0]
    rollouts = roll_out(
        walker, queries, hops=2, rollouts=3, action_dropout=0.5, log_odds=None, generator=torch.Generator().manual_seed(0)
    )
    assert len(rollouts.ends) == 3 and torch.isfinite(rollouts.last_weights).all()


def test_probabilities_are_those_of_the_equation():
    """π worked out with gathered vectors and padded softmax, as it stands in the paper."""
    walker = walker_of()
    policy, queries = walker.policy, asked((0, 1), (1, 0))
    walks = walker.begin(queries)
    choices = walker.step(walks, queries, is_last=False)
    for row, (head, relation) in enumerate([(0, 1), (1, 0)]):
        start = torch.cat([policy.relations[5], policy.entities[head]])[None]
        signal = start
        for layer in (part for part in policy.encoder if isinstance(part, LSTMLayer)):
            signal, _ = layer(layer.input(signal), torch.zeros(1, 6), torch.zeros(1, 6), None)
        state = torch.cat([policy.relations[relation], policy.entities[head], signal[0]])
        wanted = policy.output(torch.relu(policy.hidden(state)))
        relations, tails = walker.graph.edges_from(head)
        vectors = torch.cat([policy.relations[relations.tolist()], policy.entities[tails.tolist()]], dim=1)
        expected = (vectors @ wanted).log_softmax(0)
        found = choices.log_probs[choices.offsets[row] : choices.offsets[row + 1]]
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("uses_entities", [True, False])
def test_what_is_read_ahead_is_what_would_be_read(uses_entities: bool):
    """Answering looks up what layers make of relations and entities; after the policy has learnt, it is made anew."""
    walker, queries = walker_of(uses_entities=uses_entities), asked((0, 1), (1, 0))
    optimizer = Optimizer(walker.policy, "adam", 0.1)
    for _ in range(2):
        walker.policy.train()
        walker.step(walker.begin(queries), queries, is_last=False).log_probs[0].backward()
        optimizer.step()
        walker.policy.eval()
        with_gradient = walker.step(walker.begin(queries), queries, is_last=False).log_probs
        with torch.no_grad():
            looked_up = walker.step(walker.begin(queries), queries, is_last=False).log_probs
        assert torch.allclose(with_gradient, looked_up, atol=1e-6)


def test_lstm_is_the_usual_one():
    torch.manual_seed(0)
    layer, cell = LSTMLayer(3, 4), torch.nn.LSTMCell(3, 4)
    with torch.no_grad():
        cell.weight_ih.copy_(layer.input.weight)
        cell.weight_hh.copy_(layer.recurrent.weight)
        cell.bias_ih.copy_(layer.input.bias)
        cell.bias_hh.zero_()
    rows, signal, output, state = torch.tensor([1, 0, 1]), torch.randn(3, 3), torch.randn(2, 4), torch.randn(2, 4)
    ours, theirs = layer(layer.input(signal), output, state, rows), cell(signal, (output[rows], state[rows]))
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(ours, theirs, strict=True))


def test_gradient_of_the_lstm():
    torch.manual_seed(0)
    layer = LSTMLayer(3, 4).double()
    wide, narrow = (
        lambda n: torch.randn(n, 16, dtype=torch.double, requires_grad=True),
        lambda n: torch.randn(n, 4, dtype=torch.double, requires_grad=True),
    )
    rows = torch.tensor([1, 0, 1])
    assert torch.autograd.gradcheck(lambda *values: layer(*values, rows), (wide(3), narrow(2), narrow(2)))
    assert torch.autograd.gradcheck(lambda *values: layer(*values, None), (wide(2), narrow(2), narrow(2)))


def test_relations_only():
    walker = walker_of(uses_entities=False)
    assert len(walker.policy.entities) == 0
    choices = walker.step(walker.begin(asked((0, 0))), asked((0, 0)), is_last=False)
    by_relation = dict(zip(choices.relations.tolist(), choices.log_probs.tolist(), strict=True))
    assert choices.log_probs[choices.relations == 0].unique().tolist() == [by_relation[0]]  # both children look the same


# Learning


def all_paths(
    walker: Environment, queries: Queries, hops: int, log_odds: Tensor | None = None
) -> list[tuple[list[tuple[int, int]], Tensor]]:
    """Every path of the only question with its log-probability, by walking all of them."""
    walks = walker.begin(queries)
    found: list[tuple[list[tuple[int, int]], Tensor]] = [([], torch.zeros(()))]
    for hop in range(hops):
        choices = walker.step(walks, queries, is_last=hop == hops - 1, log_odds=log_odds)
        of_walks = choices.walks
        edges = list(zip(choices.relations.tolist(), choices.tails.tolist(), strict=True))
        found = [([*found[of_walks[n]][0], edges[n]], found[of_walks[n]][1] + choices.log_probs[n]) for n in range(len(edges))]
        if hop < hops - 1:
            walks = walker.take(walks, choices, torch.arange(len(edges)), of_walks)
    return found


@pytest.mark.parametrize("estimator", ["sampled", "sum"])
@pytest.mark.parametrize("shaped", [False, True])
def test_the_gradient_is_that_of_the_expected_reward(estimator: str, shaped: bool):
    """Without action dropout both estimators have the gradient of E[R], which enumeration of all paths gives exactly."""
    torch.manual_seed(0)
    walker = walker_of(estimator=estimator, rollouts=4000)
    queries = asked_with_answers(walker, (0, 0, 1))
    probabilities = torch.rand(1, 5) if shaped else None
    settings = walker.policy.settings

    def reward(end: int) -> float:
        return 1.0 if end == 1 else float(probabilities[0, end]) if probabilities is not None else 0.0

    terms = [log_prob.exp() * reward(path[-1][1]) for path, log_prob in all_paths(walker, queries, 2)]
    expected = torch.stack(terms).sum()
    exact = torch.autograd.grad(-expected, walker.policy.output.weight)[0]
    generator = torch.Generator().manual_seed(0)
    rollouts = roll_out(walker, queries, hops=2, rollouts=4000, action_dropout=0.0, log_odds=None, generator=generator)
    loss, rewards = policy_loss(rollouts, queries, probabilities, settings, Baseline())
    found = torch.autograd.grad(loss, walker.policy.output.weight)[0]
    tolerance = 0.15 if estimator == "sampled" else 0.05
    assert float((found - exact).norm() / exact.norm()) < tolerance
    assert abs(float(rewards.mean()) - float(expected.detach())) < 0.03


def test_baselines_leave_the_expected_gradient_alone():
    walker = walker_of(estimator="sum", rollouts=2000, baseline="rollouts")
    queries = asked_with_answers(walker, (0, 0, 1))
    losses = []
    for kind in ("none", "rollouts", "average"):
        generator = torch.Generator().manual_seed(0)
        rollouts = roll_out(walker, queries, hops=2, rollouts=2000, action_dropout=0.0, log_odds=None, generator=generator)
        loss, _ = policy_loss(rollouts, queries, None, walker.policy.settings, Baseline(kind, 0.3))
        losses.append(torch.autograd.grad(loss, walker.policy.output.weight)[0])
    for other in losses[1:]:
        assert float((other - losses[0]).norm() / losses[0].norm()) < 0.2


def test_average_baseline_follows_rewards():
    baseline = Baseline("average")
    assert baseline.of(torch.ones(4), 2) == 0.0
    assert baseline.of(torch.ones(4), 2) == pytest.approx(0.05)


def test_rollouts_of_one_hop():
    walker = walker_of()
    queries = asked_with_answers(walker, (0, 0, 1), (1, 0, 3))
    rollouts = roll_out(
        walker, queries, hops=1, rollouts=3, action_dropout=0.3, log_odds=None, generator=torch.Generator().manual_seed(0)
    )
    assert rollouts.queries.tolist() == [0, 0, 0, 1, 1, 1]
    assert rollouts.last.tails[rollouts.ends].tolist() == rollouts.trails[:, -1].tolist()
    assert torch.allclose(ragged.row_sums(rollouts.last_weights, rollouts.last.offsets), torch.ones(6))


# Beam search


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_a_wide_beam_is_exhaustive(hops: int, pooling: str):
    walker, queries = walker_of(), asked((0, 1))
    with torch.no_grad():
        paths = all_paths(walker, queries, hops)
    expected: dict[int, list[float]] = {}
    for path, log_prob in paths:
        expected.setdefault(path[-1][1], []).append(float(log_prob))
    found = beam_search(walker, queries, hops=hops, beam=10_000, pooling=pooling).reached(num_paths=10_000)
    scores = dict(zip(found.entities.tolist(), found.scores.tolist(), strict=True))
    pooled = {end: max(values) if pooling == "max" else float(np.logaddexp.reduce(values)) for end, values in expected.items()}
    assert scores == pytest.approx(pooled, abs=1e-5)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert len(found.paths) == len(paths)
    as_rows = {tuple(itertools.chain.from_iterable(path)): float(log_prob) for path, log_prob in paths}
    assert {
        tuple(row): score for row, score in zip(found.paths.tolist(), found.path_scores.tolist(), strict=True)
    } == pytest.approx(as_rows, abs=1e-5)


@pytest.mark.parametrize("beam", [2, 3, 100])
@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_scores_of_all_entities_are_those_of_the_search(beam: int, pooling: str):
    walker, queries = walker_of(), asked((0, 1), (3, 1), (1, 2))
    beams = beam_search(walker, queries, hops=3, beam=beam, pooling=pooling)
    found = beams.reached()
    expected = torch.full((3, 5), -torch.inf)
    expected[ragged.rows_of(found.offsets), found.entities] = found.scores
    assert torch.equal(beams.all_scores(), expected)
    assert (expected > -torch.inf).sum(dim=1).max() <= beam


def test_marks_and_the_set_of_known_answers_agree(monkeypatch: pytest.MonkeyPatch):
    walker = walker_of()
    for queries in (asked((0, 0), (1, 0)), asked_with_answers(walker, (0, 0, 1), (0, 1, 1), (2, 0, 4))):
        marked = walker.step(walker.begin(queries), queries, is_last=True)
        with monkeypatch.context() as patch:
            patch.setattr(steps, "MOST_MARKS", 0)
            looked_up = walker.step(walker.begin(queries), queries, is_last=True)
        assert choices_by_walk(marked) == choices_by_walk(looked_up)


def test_queries_are_decoded_together_as_alone():
    walker = walker_of()
    pairs = [(0, 0), (3, 1), (1, 2), (4, 0)]
    together = beam_search(walker, asked(*pairs), hops=3, beam=3).reached(num_paths=2)
    for row, pair in enumerate(pairs):
        alone = beam_search(walker, asked(pair), hops=3, beam=3).reached(num_paths=2)
        part = slice(together.offsets[row], together.offsets[row + 1])
        assert together.entities[part].tolist() == alone.entities.tolist()
        assert torch.allclose(together.scores[part], alone.scores, atol=1e-5)
        paths = slice(together.path_offsets[part.start], together.path_offsets[part.stop])
        assert together.paths[paths].tolist() == alone.paths.tolist()


def test_known_answers_are_no_answers_unless_asked_for():
    walker = walker_of()
    hidden = beam_search(walker, asked((0, 0)), hops=2, beam=50).reached()
    shown = beam_search(walker, asked((0, 0)), hops=2, beam=50, blocks_known=False).reached()
    assert not {1, 2} & set(hidden.entities.tolist()) and {1, 2} < set(shown.entities.tolist())


def test_guidance_counts_on_the_last_hop():
    walker = walker_of(guidance=1.0)
    log_odds = torch.tensor([[0.0, 0.0, 0.0, 50.0, 0.0]])
    found = beam_search(walker, asked((0, 1)), hops=2, beam=50, log_odds=log_odds).reached()
    assert found.entities[0] == 3


# Counting


def test_distinct_rows_are_counted():
    count = DistinctCount()
    rows = torch.stack([torch.arange(300_000) // 3, torch.arange(300_000) % 2], dim=1)
    for part in rows.split(50_000):
        count.add(part)
    assert count.estimate() == pytest.approx(len({tuple(row) for row in rows.tolist()}), rel=0.02)
    few = DistinctCount()
    few.add(torch.arange(1000)[:, None])
    assert few.estimate() == pytest.approx(1000, rel=0.02)
