"""A walker that answers: candidates and paths of a beam search."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np
import torch
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.graph import build_graph
from hopwalk.data.graph import with_facts as graph_with_facts
from hopwalk.data.reachability import reached as within_reach
from hopwalk.data.triples import Ids, Triples
from hopwalk.learning.probability import FactProbability
from hopwalk.learning.scorer import Step
from hopwalk.reasoning.models import AnswerModel, Candidates, FactIds, PathIds, QueryIds, Ranking, best_candidates
from hopwalk.utils.parallel import on_all_threads
from hopwalk.walker.beam import Beam, Reached, ranks_along
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import Environment, Queries, hidden_edges, training_queries

SPARE = 4  # times as many paths are decoded as are shown, because some differ only in where they stay
WIDER = 16  # how many times as wide a beam looks for a path that the usual one lost


class WalkerModel(AnswerModel):
    """A walker that answers. The score of an entity is the log-probability of the paths that reach it."""

    ranks_by = "the probability of the policy's paths, as in the paper"

    def __init__(self, decoder: Decoder, dataset: Dataset, probability: FactProbability | None = None) -> None:
        self.decoder, self.dataset, self.known = decoder, dataset, decoder.environment.known
        self.calibration, self.probability = decoder.calibration, probability
        self.max_hops = decoder.settings.walk.hops

    @property
    def queries_at_once(self) -> int:
        """How many queries are decoded together."""
        return self.decoder.queries_at_once * torch.get_num_threads()

    def rank(self, queries: Sequence[QueryIds], *, only_new: bool = False, k: int | None = None) -> Ranking:
        """The candidates of queries; with `only_new`, walks do not end at known answers."""
        at_once = self.decoder.queries_at_once
        batches = [queries[first : first + at_once] for first in range(0, len(queries), at_once)]

        def search(batch: Sequence[QueryIds]) -> Beam:
            asked = Queries(*torch.tensor(batch).unbind(dim=1))
            beam = self.decoder.search(asked, blocks_known=only_new)
            if only_new:  # a prefix of a walk may still stay at one
                offsets, known = self.known.answers(asked.heads.numpy(), asked.relations.numpy())
                rows = np.repeat(np.arange(len(batch)), np.diff(offsets))
                beam = beam.without(torch.from_numpy(rows), torch.from_numpy(known).long())
            return beam

        return self._ranking(on_all_threads(search, batches), k)

    def rank_facts(self, facts: Triples) -> Ranking:
        """The candidates of the queries of facts, each of which is hidden from its own query."""
        at_once = self.decoder.queries_at_once
        parts = [facts[first : first + at_once] for first in range(0, len(facts), at_once)]
        graph = self.decoder.environment.graph

        def search(part: Triples) -> Beam:
            return self.decoder.search(training_queries(graph, part.heads, part.relations, part.tails))

        return self._ranking(on_all_threads(search, parts), None)

    def _ranking(self, beams: Sequence[Beam], k: int | None) -> Ranking:
        nothing = np.empty(0, dtype=np.int32)
        candidates: list[Candidates] = []
        for beam in beams:
            for entities, scores in zip(beam.entities.numpy(), beam.scores.numpy(), strict=True):
                is_reached = scores > -np.inf
                entities, scores = entities[is_reached], scores[is_reached].astype(np.float64)
                normaliser = float(np.logaddexp.reduce(scores)) if len(scores) else 0.0
                candidates.append(best_candidates(entities, scores, normaliser, nothing, k))
        stay_id = self.decoder.environment.graph.relation_ids.stay_id
        return _WalkerRanking(beams, candidates, stay_id)

    def score_all_tails(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> NDArray[np.float32]:
        """The scores of all entities, -inf where no path leads to an entity [Q, E]."""
        return self.scores_without(heads, relations, hidden) if hidden else self.decoder.scores(heads, relations)

    def scores_without(self, heads: Ids, relations: Ids, hidden: Sequence[Triples]) -> NDArray[np.float32]:
        """The scores of all entities, -inf out of reach, if each query does not see some facts, in neither direction [Q, E]."""
        edges = hidden_edges(self.decoder.environment.graph, hidden)
        found = np.empty((len(heads), len(self.dataset.entities)), dtype=np.float32)
        for first in range(0, len(heads), self.decoder.queries_at_once):
            rows = slice(first, first + self.decoder.queries_at_once)
            head_ids, relation_ids = (torch.from_numpy(column[rows].astype(np.int64)) for column in (heads, relations))
            queries = Queries(head_ids, relation_ids, hidden_edges=torch.from_numpy(edges[rows]))
            found[rows] = self.decoder.search(queries).all_scores().numpy()
        return found

    def scores_with_only(self, heads: Ids, relations: Ids, facts: Sequence[Triples]) -> NDArray[np.float32]:
        """The scores of all entities, -inf out of reach, if each query sees no other facts than some [Q, E]."""
        before, settings = self.decoder.environment, self.decoder.settings
        found = np.empty((len(heads), len(self.dataset.entities)), dtype=np.float32)
        for row, part in enumerate(facts):
            graph = build_graph(part, before.graph.num_entities, before.graph.num_relations, settings.graph)
            decoder = Decoder(Environment(graph, before.policy, before.known), settings)
            found[row] = decoder.scores(heads[row : row + 1], relations[row : row + 1])[0]
        return found

    def floors(self, heads: Ids, relations: Ids) -> NDArray[np.float32]:
        """The score of entities that no path reaches: -inf, as scores are logarithms of probabilities [Q]."""
        return np.full(len(heads), -np.inf, dtype=np.float32)

    def with_data(self, dataset: Dataset, added: Triples) -> WalkerModel:
        """The same policy on the graph with more facts."""
        before = self.decoder.environment
        known = before.known.with_facts(added)
        environment = Environment(graph_with_facts(before.graph, added), before.policy, known)
        return WalkerModel(Decoder(environment, self.decoder.settings, self.decoder.calibration), dataset, self.probability)

    def why_not(self, fact: FactIds) -> str:
        """Where the walk loses the tail of a fact."""
        settings, environment = self.decoder.settings, self.decoder.environment
        hops, beam = settings.walk.hops, settings.walk.beam
        ends = np.array([fact[0]], dtype=np.int32), np.array([fact[2]], dtype=np.int32)
        if not within_reach(environment.graph, *ends, hops)[0]:
            too_far = super().why_not(fact)
            return too_far or f"the paths to it are cut by the fan-out limit of {settings.graph.fan_out} (graph.fan_out)"
        columns = [np.array([id_], dtype=np.int32) for id_ in fact]
        queries = training_queries(environment.graph, *columns)
        wide = self.decoder.search(queries, beam=WIDER * beam).reached()
        places = (wide.entities == fact[2]).nonzero()
        if not len(places):
            itself = " but the fact itself" if self.known.contains(*columns)[0] else ""
            return f"no path{itself} leads there that a beam of {WIDER * beam:,} finds"
        path = wide.paths[int(wide.path_offsets[int(places[0])])].tolist()
        ranks = ranks_along(environment, queries, path, beam=beam)
        lost = next((hop for hop, rank in enumerate(ranks, start=1) if rank > beam), len(ranks))
        return f"its best path is lost at hop {lost} of {hops}: it has rank {ranks[lost - 1]:,}, and the beam keeps {beam}"


class _WalkerRanking(Ranking):
    def __init__(self, beams: Sequence[Beam], candidates: list[Candidates], stay_id: int) -> None:
        self.candidates, self._beams, self._stay_id = candidates, beams, stay_id

    def paths(self, chosen: Sequence[Sequence[int]], num_paths: int) -> list[list[list[PathIds]]]:
        """The likeliest paths to each chosen entity; a share is of the probability of the paths that were found to it."""
        found: list[list[list[PathIds]]] = []
        for beam in self._beams:
            rows = chosen[len(found) : len(found) + len(beam.entities)]
            found += self._paths_of(beam, rows, num_paths)
        return found

    def _paths_of(self, beam: Beam, chosen: Sequence[Sequence[int]], num_paths: int) -> list[list[list[PathIds]]]:
        is_chosen = torch.zeros_like(beam.entities, dtype=torch.bool)
        for row, entities in enumerate(chosen):
            is_chosen[row] = torch.isin(beam.entities[row], torch.tensor(list(entities), dtype=torch.int64))
        reached = beam.reached(is_chosen, num_paths=SPARE * num_paths)
        by_entity = _paths_by_entity(reached, self._stay_id, num_paths)
        return [[by_entity.get((row, entity), []) for entity in entities] for row, entities in enumerate(chosen)]


def _paths_by_entity(reached: Reached, stay_id: int, num_paths: int) -> dict[tuple[int, int], list[PathIds]]:
    """The paths of every (query, entity), likeliest first; of paths that differ only in where they stay, one."""
    # By way of numpy, whose `tolist` takes a hundredth of the time of torch's.
    path_offsets, paths = reached.path_offsets.numpy().tolist(), reached.paths.numpy().tolist()
    log_probs: list[float] = reached.path_log_probs.numpy().tolist()
    rows = np.repeat(np.arange(len(reached.offsets) - 1), np.diff(reached.offsets.numpy())).tolist()
    found: dict[tuple[int, int], list[PathIds]] = {}
    for place, (row, entity) in enumerate(zip(rows, reached.entities.numpy().tolist(), strict=True)):
        distinct: dict[tuple[Step, ...], float] = {}
        for number in range(path_offsets[place], path_offsets[place + 1]):
            steps = zip(paths[number][::2], paths[number][1::2], strict=True)
            moves = tuple(step for step in steps if step[0] != stay_id)
            distinct[moves] = distinct.get(moves, 0.0) + exp(log_probs[number])
        total = sum(distinct.values()) or 1.0
        ordered = sorted(distinct.items(), key=lambda item: -item[1])
        found[row, entity] = [(steps, probability / total) for steps, probability in ordered[:num_paths]]
    return found
