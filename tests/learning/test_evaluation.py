"""Evaluation of a split: the complete filter by hand."""

import numpy as np

from hopwalk.learning.evaluation import evaluate_split
from tests.support.helpers import FAMILY, dataset_of


def test_the_complete_filter_by_hand():
    """Bob, a test answer, scores higher than Dan, the dev answer: only the complete filter removes Bob."""
    family = dataset_of(FAMILY, valid=[("ann", "knows", "dan")], test=[("ann", "knows", "bob")])
    scores = np.array([0, 5, 1, 3, 2], dtype=np.float32)  # ann, bob, cat, dan, eve

    def score_all_tails(heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        return np.tile(scores, (len(heads), 1))

    plain, complete = (evaluate_split(score_all_tails, family, "valid", complete_filter=is_so) for is_so in (False, True))
    assert (plain.tails.mrr, plain.is_filter_complete) == (1 / 2, False)
    assert (complete.tails.mrr, complete.is_filter_complete) == (1, True)
    assert plain.heads.mrr == 1 / 5  # (dan, knows⁻¹, ?) has Ann last
    assert evaluate_split(score_all_tails, family, "test").tails.mrr == 1
