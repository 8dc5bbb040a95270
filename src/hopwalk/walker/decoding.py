"""From walks to ranked entities: by the policy, re-ranked with the scorer, by the scorer alone, and by a blend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hopwalk.config.settings import Settings
from hopwalk.data.triples import Ids
from hopwalk.utils.parallel import on_all_threads
from hopwalk.walker.beam import Beam, beam_search
from hopwalk.walker.environment import Environment, Queries
from hopwalk.walker.scorer_logits import ScorerLogits

# Rankings of a walker's answers, in Python, JSON, tables and docs alike. A walker without a scorer has the first only.
POLICY = "policy"  # by the probability of the policy's paths, as the paper ranks
RERANKED = "reranked"  # by that probability times the scorer's probability of the entity, to the power walker.rerank_weight
SCORER = "scorer"  # by the scorer alone; every entity is ranked
BLEND = "blend"  # by the scorer's logit plus blend_weight times the log-probability of the paths; every entity is ranked
RANKINGS = (POLICY, RERANKED, SCORER, BLEND)
BLEND_WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)  # to choose from on dev
WALKS_AT_ONCE, SCORES_AT_ONCE = 4096, 2**23  # bound the memory, whatever the beam and the number of entities


class Decoder:
    """Answers queries with walks: searches the graph, and scores all entities for `ranking.rank_answers_by`."""

    def __init__(
        self,
        environment: Environment,
        settings: Settings,
        scorer_logits: ScorerLogits | None,
        blend_weight: float | None = None,
    ) -> None:
        self.environment, self.settings, self.scorer_logits = environment, settings, scorer_logits
        self.blend_weight = blend_weight

    @property
    def queries_at_once(self) -> int:
        """How many queries are decoded together."""
        by_entities = SCORES_AT_ONCE // max(self.environment.graph.num_entities, 1)
        return max(min(WALKS_AT_ONCE // self.settings.walk.beam, by_entities), 1)

    @property
    def own_ranking(self) -> str:
        """The ranking by which training selects the best epoch: re-ranked if the settings say so, else by the policy."""
        return RERANKED if self.scorer_logits is not None and self.settings.walker.rerank_weight else POLICY

    def logits(self, queries: Queries) -> Tensor | None:
        """The scorer's logits of all entities [Q, E]; None without a scorer."""
        return self.scorer_logits.of(queries.heads, queries.relations) if self.scorer_logits else None

    def search(
        self, queries: Queries, scorer_logits: Tensor | None, *, beam: int | None = None, blocks_known: bool = True
    ) -> Beam:
        """The beam of some queries, as wide as the settings say or as given."""
        return beam_search(
            self.environment,
            queries,
            hops=self.settings.walk.hops,
            beam=beam or self.settings.walk.beam,
            pooling=self.settings.walker.pooling,
            scorer_logits=scorer_logits,
            blocks_known=blocks_known,
        )

    def rankings(self, blend_weights: Sequence[float] = ()) -> list[str]:
        """The names of the rankings that `scores` gives; each blend has its weight in its name."""
        if self.scorer_logits is None:
            return [POLICY]
        return [POLICY, RERANKED, SCORER, *(blend_name(weight) for weight in blend_weights)]

    def scores(
        self, heads: Ids, relations: Ids, blend_weights: Sequence[float] = (), rankings: Sequence[str] | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """The scores of all entities by each ranking, -inf where no path leads to an entity [Q, E].

        Every query is searched and scored once, whatever the number of rankings; `rankings` limits them to some.
        """
        names = self.rankings(blend_weights) if rankings is None else list(rankings)
        found = {name: np.empty((len(heads), self.environment.graph.num_entities), dtype=np.float32) for name in names}

        def decode(first: int) -> None:
            rows = slice(first, first + self.queries_at_once)
            queries = Queries(_ids(heads[rows]), _ids(relations[rows]))
            for name, scores in self._scores(queries, blend_weights, names).items():
                found[name][rows] = scores.numpy()

        on_all_threads(decode, range(0, len(heads), self.queries_at_once))
        return found

    def _scores(self, queries: Queries, blend_weights: Sequence[float], names: Sequence[str]) -> dict[str, Tensor]:
        logits = self.logits(queries)
        found: dict[str, Tensor] = {}
        if logits is not None and SCORER in names:
            found[SCORER] = logits
        if any(name != SCORER for name in names):
            beam = self.search(queries, logits)
            by_policy = beam.all_scores()
            if POLICY in names:
                found[POLICY] = by_policy
            if logits is not None and RERANKED in names:
                weight = self.settings.walker.rerank_weight
                found[RERANKED] = beam.reranked(logits, weight).all_scores() if weight else by_policy
            if logits is not None:
                found |= {
                    blend_name(weight): blend(by_policy, logits, weight)
                    for weight in blend_weights
                    if blend_name(weight) in names
                }
        return found


def blend_name(weight: float) -> str:
    """The name of the blend in which paths have that weight."""
    return f"{BLEND} {weight:g}"


def blend(path_scores: Tensor, scorer_logits: Tensor, weight: float) -> Tensor:
    """The scorer's logits, plus `weight` times how far the log-probability of an entity's paths is above the least of the query.

    Both are [Q, C] for the same C entities. Entities that no path reaches, whose path score is -inf, keep the scorer's logit.
    """
    is_reached = path_scores > -torch.inf
    least = path_scores.masked_fill(~is_reached, 0.0).amin(dim=1, keepdim=True)
    return scorer_logits + weight * (path_scores - least).masked_fill(~is_reached, 0.0)


def _ids(ids: Ids) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))
