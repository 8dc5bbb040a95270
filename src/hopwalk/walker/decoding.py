"""From walks to ranked entities: by their paths, by the probability of these alone, by the scorer, and by a blend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from hopwalk.config.settings import Settings
from hopwalk.data.triples import Ids
from hopwalk.utils.parallel import on_all_threads
from hopwalk.walker.beam import Beam, Reached, beam_search
from hopwalk.walker.environment import Questions, Walker
from hopwalk.walker.scorer_logits import Opinions

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)  # of paths in the blend, to choose from on dev
PATHS, PROBABILITY, SCORER, BLEND = "paths", "probability", "scorer", "blend"
WALKS_AT_ONCE, SCORES_AT_ONCE = 4096, 2**23  # bound the memory, whatever the beam and the number of entities


class Decoder:
    """Scores of all entities for `ranking.rank_answers_by`, made from walks and from the scorer."""

    def __init__(self, walker: Walker, settings: Settings, opinions: Opinions | None) -> None:
        self._walker, self._settings, self._opinions = walker, settings.walk, opinions
        self._pooling = settings.walker.pooling
        self._reward_weight = settings.walker.reward_weight if opinions else 0.0

    @property
    def questions_at_once(self) -> int:
        """How many questions are decoded together."""
        return max(min(WALKS_AT_ONCE // self._settings.beam, SCORES_AT_ONCE // max(self._walker.graph.num_entities, 1)), 1)

    def searched(self, questions: Questions, log_odds: torch.Tensor | None, *, blocks_known: bool = True) -> Beam:
        """Where the walks of some questions lead; `log_odds` [Q, E] are the scorer's."""
        walk = self._settings
        return beam_search(
            self._walker,
            questions,
            hops=walk.hops,
            beam=walk.beam,
            pooling=self._pooling,
            log_odds=log_odds,
            blocks_known=blocks_known,
        )

    def reached(self, questions: Questions, *, num_paths: int = 1, blocks_known: bool = True) -> Reached:
        """What the walks of some questions reach, with the best paths to every entity."""
        return self.searched(questions, self._log_odds(questions), blocks_known=blocks_known).reached(num_paths=num_paths)

    def _log_odds(self, questions: Questions) -> torch.Tensor | None:
        return self._opinions.log_odds(questions.heads, questions.relations) if self._opinions else None

    def path_scores(self, heads: Ids, relations: Ids) -> NDArray[np.float32]:
        """The score of every entity by its paths, -inf where none leads to it [Q, E]."""
        return self._by_paths(heads, relations, [PATHS])[PATHS]

    def _by_paths(self, heads: Ids, relations: Ids, names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Scores by paths, by their probability alone, or both."""
        found = {name: np.empty((len(heads), self._walker.graph.num_entities), dtype=np.float32) for name in names}

        def decode(first: int) -> None:
            rows = slice(first, first + self.questions_at_once)
            questions = Questions(_ids(heads[rows]), _ids(relations[rows]))
            log_odds = self._log_odds(questions)
            beam = self.searched(questions, log_odds)
            beams = {PROBABILITY: beam, PATHS: beam}
            if log_odds is not None and self._reward_weight:
                beams[PATHS] = beam.rewarded(log_odds, self._reward_weight)
            for name, scores in found.items():
                scores[rows] = beams[name].all_scores().numpy()

        on_all_threads(decode, range(0, len(heads), self.questions_at_once))
        return found

    def scores(self, heads: Ids, relations: Ids, weights: Sequence[float]) -> dict[str, NDArray[np.float32]]:
        """Scores by paths, by their probability alone, by the scorer, and by blends; only those that differ, as `names` says."""
        by_paths = self._by_paths(heads, relations, [name for name in self.names([]) if name != SCORER])
        if self._opinions is None:
            return by_paths
        by_scorer = self._opinions.log_odds(_ids(heads), _ids(relations)).numpy()
        by_probability = by_paths.get(PROBABILITY, by_paths[PATHS])
        blends = {blend_name(weight): blend(by_probability, by_scorer, weight) for weight in weights}
        return {**by_paths, SCORER: by_scorer, **blends}

    def names(self, weights: Sequence[float]) -> list[str]:
        """What `scores` gives."""
        if self._opinions is None:
            return [PATHS]
        return [PATHS, *([PROBABILITY] if self._reward_weight else []), SCORER, *(blend_name(weight) for weight in weights)]


def blend_name(weight: float) -> str:
    """The name of the blend in which paths have that weight."""
    return f"{BLEND} {weight:g}"


def blend(by_paths: NDArray[np.float32], by_scorer: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """The scorer's log-odds, and for entities that a path leads to `weight` times how far its log-probability is above the least.

    So entities that no path leads to have nothing but the scorer's opinion.
    """
    is_reached = by_paths > -np.inf
    least = np.min(by_paths, axis=1, keepdims=True, where=is_reached, initial=0.0)
    above = np.subtract(by_paths, least, out=np.zeros_like(by_paths), where=is_reached)
    blended: NDArray[np.float32] = by_scorer + np.float32(weight) * above
    return blended


def _ids(ids: Ids) -> torch.Tensor:
    return torch.from_numpy(ids.astype(np.int64))
