"""Ways to choose three paths behind a score of propagation, and how far right answers fall without them.

    python -m benchmarks.path_choices runs/umls runs/wn18rr

Dev. All ways choose from the same candidates, those of `PropagationScorer.paths_behind`, but the last, which looks for candidates
again after every path. For each way: the mean share of the score that is lost without the three paths, and the MRR of the
answers, which were ranked first, without the three paths and with nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import SettingsError
from hopwalk.learning.ranking import filtered_answers, rank_answers, sample_queries, split_queries
from hopwalk.learning.run import Run
from hopwalk.propagation.graph import Floats, Int64s
from hopwalk.propagation.paths import NUM_CANDIDATES, steps_of
from hopwalk.propagation.queries import hidden_positions, plain_tasks
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.reasoning.faithfulness import facts_of_paths
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.models import ScorerModel

NUM_PATHS = 3
WAYS = (
    "product of derivatives",
    "product of attentions",
    "score of the path alone",
    "fall without it alone",
    "fall, those before it away",
    "the same, candidates looked for again",
)


@dataclass(frozen=True)
class Query:
    """A query with its right answer; `floor` is the score that stands for no walk."""

    head: int
    relation: int
    answer: int
    floor: float


class Choices:
    """The candidates for the paths of an answer, and the ways to choose among them."""

    def __init__(self, scorer: PropagationScorer, query: Query) -> None:
        self._scorer, self._query = scorer, query
        self._arrays = scorer.model.arrays(np.array([query.relation], dtype=np.int32))
        self.candidates = self._explained(Triples.of([]))

    def _explained(self, hidden: Triples) -> list[Triples]:
        """Candidates, as facts, if some facts are hidden. The attentions of their edges are those of the last call."""
        query, engine = self._query, self._scorer.engine
        edges = hidden_positions(engine.graph, [hidden], self._scorer.relation_ids)
        tasks = plain_tasks(np.array([query.head]), np.array([query.relation]), edges)
        answers = np.array([query.answer], dtype=np.int32)
        paths = [path[path >= 0] for path in engine.explain(tasks, *self._arrays, answers, NUM_CANDIDATES).paths[0]]
        self.attentions = [self._attention(path) for path in paths if len(path)]
        num_relations = self._scorer.relation_ids.num_relations
        return [facts_of_paths(query.head, [(steps_of(engine.graph, path), 1.0)], num_relations) for path in paths if len(path)]

    def _attention(self, path: Int64s) -> float:
        """The product over edges of their largest attention in any layer, read off the workspace."""
        ws, layers = self._scorer.engine._workspaces[0], self._scorer.settings.layers
        num_runs = int(ws.sender_run_ends[ws.sender_starts[layers] - 1])
        ends = ws.run_ends[:num_runs]
        alphas = np.repeat(ws.run_alphas[:num_runs], np.diff(ends, prepend=0))
        ids = ws.edge_ids[: len(alphas)]
        return float(np.prod([alphas[ids == edge].max() for edge in path]))

    def scores(self, hidden: Sequence[Triples]) -> list[float]:
        """The score of the answer without some facts."""
        heads, relations = (np.full(len(hidden), id_, dtype=np.int32) for id_ in (self._query.head, self._query.relation))
        reached = self._scorer.score_reached(heads, relations, hidden)
        found = reached.dense(self._scorer.num_entities, -np.inf)[:, self._query.answer]
        return np.where(found == -np.inf, self._query.floor, found).tolist()  # type: ignore[no-any-return]

    def alone(self) -> list[float]:
        """The score of the answer on a graph that has one candidate only."""
        ids = [np.array([id_], dtype=np.int32) for id_ in (self._query.head, self._query.relation)]
        graphs = [self._scorer.with_graph(facts, self._scorer.num_entities) for facts in self.candidates]
        return [float(graph.numpy_scores(*ids)[0, self._query.answer]) for graph in graphs]

    def one_by_one(self, *, again: bool) -> list[Triples]:
        """Paths without which the score falls furthest, those before it away."""
        chosen: list[Triples] = []
        candidates = self.candidates
        while candidates and len(chosen) < NUM_PATHS:
            scores = self.scores([Triples.concatenate([*chosen, facts]) for facts in candidates])
            best = int(np.argmin(scores))
            chosen.append(candidates[best])
            rest = [facts for place, facts in enumerate(candidates) if place != best]
            candidates = self._explained(Triples.concatenate(chosen)) if again else rest
        return chosen

    def all_ways(self) -> dict[str, list[Triples]]:
        """The chosen paths by way of choosing."""
        falls = [-score for score in self.scores(self.candidates)]
        orders = [[-float(place) for place in range(len(falls))], self.attentions, self.alone(), falls]
        ways = {
            name: [self.candidates[place] for place in np.argsort(-np.array(order), kind="stable")[:NUM_PATHS]]
            for name, order in zip(WAYS, orders, strict=False)
        }
        return ways | {WAYS[4]: self.one_by_one(again=False), WAYS[5]: self.one_by_one(again=True)}


def measure(run: str, num_queries: int = 200) -> dict[str, tuple[float, float, float]]:
    """Loss, MRR without the paths and MRR with them only, by way of choosing."""
    model = load_model(Run.open(run))
    if not isinstance(model, ScorerModel) or not isinstance(model.scorer, PropagationScorer):
        raise SettingsError("only paths of propagation can be chosen in different ways", path=run)
    known, queries = filtered_answers(model.dataset, "valid"), sample_queries(split_queries(model.dataset, "valid"), num_queries)
    ranks = rank_answers(model.score_all_tails, queries, known, num_entities=len(model.dataset.entities)).realistic
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WAYS}
    for head, relation, answer in queries[ranks == 1].array().tolist():
        heads, relations = np.array([head], dtype=np.int32), np.array([relation], dtype=np.int32)
        floor = float(model.floors(heads, relations)[0])
        choices = Choices(model.scorer, Query(head, relation, answer, floor))
        full = choices.scores([Triples.of([])])[0]
        if not choices.candidates or full <= floor:
            continue
        filtered = known.answers(heads, relations)[1]
        for name, paths in choices.all_ways().items():
            facts = [Triples.concatenate(paths)]
            without, only = model.scores_without(heads, relations, facts)[0], model.scores_with_only(heads, relations, facts)[0]
            lost = (full - max(float(without[answer]), floor)) / (full - floor)
            found[name].append((lost, 1 / _rank(without, answer, filtered, floor), 1 / _rank(only, answer, filtered, floor)))
    return {name: (*np.mean(rows, axis=0).tolist(),) for name, rows in found.items() if rows}


def _rank(of_all: Floats, answer: int, filtered: Ids, floor: float) -> float:
    """The filtered rank of an answer; entities out of reach have the score `floor`."""
    scores = np.where(of_all == -np.inf, np.float32(floor), of_all)
    own = scores[answer]
    scores[filtered] = scores[answer] = -np.inf
    return float(1 + np.count_nonzero(scores > own) + np.count_nonzero(scores == own) / 2)


def main() -> None:
    """Measure the runs given at the command line, and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--queries", type=int, default=200)
    arguments = parser.parse_args()
    for run in arguments.runs:
        print(f"{run}\n| chosen by | score lost | MRR without | MRR with only |\n|---|---:|---:|---:|")
        for name, numbers in measure(run, arguments.queries).items():
            print(f"| {name} | {' | '.join(f'{100 * number:.1f}' for number in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
