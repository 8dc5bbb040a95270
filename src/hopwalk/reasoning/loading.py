"""The model of a run folder that answers queries, whatever its kind."""

from __future__ import annotations

from hopwalk.learning.probability import probability_of
from hopwalk.learning.run import Run
from hopwalk.learning.scorer import PathScorer, Scorer
from hopwalk.reasoning.models import AnswerModel, ScorerModel
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.scorers.ensemble import Ensemble
from hopwalk.scorers.ntp.model import NtpScorer
from hopwalk.scorers.runs import load_scorer
from hopwalk.walker.runs import WALKER, load_decoder


def load_model(run: Run) -> AnswerModel:
    """The walker or the scorer of a run, ready to answer over the graph it was trained on."""
    dataset = run.dataset.with_valid_in_training() if run.trained_on_valid else run.dataset
    if run.about["kind"] == WALKER:
        return WalkerModel(load_decoder(run), dataset, probability_of(run))
    scorer = load_scorer(run.path)
    return ScorerModel(scorer, dataset, ranks_by(scorer), probability_of(run))


def ranks_by(scorer: Scorer) -> str:
    """What the ranking of a scorer is made of, in words."""
    if isinstance(scorer, PathScorer):
        return "the walks from the head, and nothing else"
    if isinstance(scorer, Ensemble):
        weights = ", ".join(f"{weight:.2g}" for weight in scorer.weights)
        return f"the mean log-odds of its members with the weights {weights}; paths are those of the first member that has them"
    if isinstance(scorer, NtpScorer):
        return "proofs by similar facts and learnt rules; there are no paths"
    return "embeddings; there are no paths"
