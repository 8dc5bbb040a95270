"""Beam search, against walking all paths."""

import itertools

import numpy as np
import pytest
import torch

from hopwalk.walker import ragged
from hopwalk.walker.beam import beam_search, ranks_along
from tests.support.walks import all_paths, environment_of, queries_of


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_a_wide_beam_is_exhaustive(hops: int, pooling: str):
    environment, query = environment_of(), queries_of((0, 1))
    with torch.no_grad():
        paths = all_paths(environment, query, hops)
    by_end: dict[int, list[float]] = {}
    for path, log_prob in paths:
        by_end.setdefault(path[-1][1], []).append(float(log_prob))
    expected = {end: max(values) if pooling == "max" else float(np.logaddexp.reduce(values)) for end, values in by_end.items()}
    found = beam_search(environment, query, hops=hops, beam=10_000, pooling=pooling).reached(num_paths=10_000)
    scores = dict(zip(found.entities.tolist(), found.scores.tolist(), strict=True))
    assert scores == pytest.approx(expected, abs=1e-5)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)
    assert len(found.paths) == len(paths)
    expected_paths = {tuple(itertools.chain.from_iterable(path)): float(log_prob) for path, log_prob in paths}
    found_paths = {tuple(row): value for row, value in zip(found.paths.tolist(), found.path_log_probs.tolist(), strict=True)}
    assert found_paths == pytest.approx(expected_paths, abs=1e-5)


@pytest.mark.parametrize("beam", [2, 3, 100])
@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_scores_of_all_entities_are_those_of_the_search(beam: int, pooling: str):
    environment, queries = environment_of(), queries_of((0, 1), (3, 1), (1, 2))
    searched = beam_search(environment, queries, hops=3, beam=beam, pooling=pooling)
    found = searched.reached()
    expected = torch.full((3, 5), -torch.inf)
    expected[ragged.rows_of(found.offsets), found.entities] = found.scores
    assert torch.equal(searched.all_scores(), expected)
    assert (expected > -torch.inf).sum(dim=1).max() <= beam


def test_queries_are_decoded_together_as_alone():
    environment = environment_of()
    pairs = [(0, 0), (3, 1), (1, 2), (4, 0)]
    together = beam_search(environment, queries_of(*pairs), hops=3, beam=3).reached(num_paths=2)
    for row, pair in enumerate(pairs):
        alone = beam_search(environment, queries_of(pair), hops=3, beam=3).reached(num_paths=2)
        part = slice(together.offsets[row], together.offsets[row + 1])
        assert together.entities[part].tolist() == alone.entities.tolist()
        assert torch.allclose(together.scores[part], alone.scores, atol=1e-5)
        paths = slice(together.path_offsets[part.start], together.path_offsets[part.stop])
        assert together.paths[paths].tolist() == alone.paths.tolist()


def test_known_answers_are_blocked_unless_they_are_requested():
    environment, query = environment_of(), queries_of((0, 0))
    new = beam_search(environment, query, hops=2, beam=50).reached()
    everything = beam_search(environment, query, hops=2, beam=50, blocks_known=False).reached()
    assert not {1, 2} & set(new.entities.tolist()) and {1, 2} < set(everything.entities.tolist())


def test_entities_can_be_left_out():
    environment, queries = environment_of(), queries_of((0, 1), (0, 1))
    searched = beam_search(environment, queries, hops=2, beam=10)
    left_out = searched.without(torch.tensor([1]), searched.entities[1, :1])
    first, second = left_out.all_scores()
    assert torch.equal(first, searched.all_scores()[0])
    assert second[searched.entities[1, 0]] == -torch.inf
    assert (second > -torch.inf).sum() == (first > -torch.inf).sum() - 1


def test_ranks_along_a_path_are_those_among_all_walks():
    environment, query = environment_of(), queries_of((0, 1))
    with torch.no_grad():
        paths = all_paths(environment, query, 2)
        first = environment.step(environment.start(query), query, is_last=False)
    prefixes = dict(zip(zip(first.relations.tolist(), first.tails.tolist(), strict=True), first.log_probs.tolist(), strict=True))
    for path, log_prob in paths:
        ids = list(itertools.chain.from_iterable(path))
        expected = [sum(other > prefixes[path[0]] for other in prefixes.values()) + 1]
        expected.append(sum(bool(other > log_prob) for _, other in paths) + 1)
        assert ranks_along(environment, query, ids, beam=100) == expected
        narrow = ranks_along(environment, query, ids, beam=1)  # compared with the walks of a narrow beam only
        assert narrow[0] == expected[0] and narrow[1] <= expected[1]
