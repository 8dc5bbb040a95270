"""Construction of scorers by name."""

from __future__ import annotations

import torch

from hopwalk.config.settings import ScorerSettings, Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.errors import UnknownNameError, did_you_mean
from hopwalk.learning.scorer import Scorer
from hopwalk.scorers.base import ProductScorer, TrainableScorer
from hopwalk.scorers.complex import ComplEx
from hopwalk.scorers.conve import ConvE
from hopwalk.scorers.distmult import DistMult
from hopwalk.scorers.installed import build_installed, installed_names
from hopwalk.utils.text import fold_name

PROPAGATION, NEURAL_LP, DRUM, NTP = "propagation", "neural-lp", "drum", "ntp"
MODELS: dict[str, type[ProductScorer]] = {"distmult": DistMult, "complex": ComplEx, "conve": ConvE}
PYKEEN = "pykeen:"


def build_scorer(
    num_entities: int, num_relations: int, settings: ScorerSettings, facts: Triples | None = None
) -> TrainableScorer:
    """The scorer of the settings, with initial parameters from their seed.

    A name that is not ours is looked for among those of installed packages. Only the models of PyKEEN that pass messages over
    the graph need the facts.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    if settings.model.lower().startswith(PYKEEN):
        from hopwalk.scorers.pykeen import PykeenScorer

        return PykeenScorer.build(num_entities, num_relations, settings, facts)
    model = MODELS.get(fold_name(settings.model))
    if model is None:
        installed = build_installed(settings.model, num_entities, num_relations, settings, generator)
        if installed is not None:
            return installed
        names = [*MODELS, PROPAGATION, NEURAL_LP, DRUM, NTP, *installed_names()]
        known = f"Scorers are: {', '.join(names)}, and the models of PyKEEN, e.g. pykeen:TransE. "
        known += "One of another package must be installed."
        raise UnknownNameError(
            f"there is no scorer {settings.model!r}", remedy=did_you_mean(settings.model.lower(), names) or known
        )
    return model(num_entities, num_relations, settings, generator)


def build_any_scorer(dataset: Dataset, settings: Settings) -> Scorer:
    """The scorer that the settings name, a one-hop model, propagation, soft rules or a prover, with fresh parameters."""
    size = len(dataset.entities), len(dataset.relations)
    graph = dataset.with_valid_in_training() if settings.scorer.train_on_valid else dataset
    if is_propagation(settings):
        from hopwalk.propagation.scorer import PropagationScorer

        return PropagationScorer(*size, settings.propagation, graph.facts)
    if has_rules(settings):
        from hopwalk.propagation.rule_scorer import RuleScorer

        return RuleScorer(*size, settings.rules, graph.facts, is_drum=fold_name(settings.scorer.model) == DRUM)
    if is_ntp(settings):
        from hopwalk.scorers.ntp.model import NtpScorer

        return NtpScorer(*size, settings.ntp, graph.facts)
    return build_scorer(*size, settings.scorer, dataset.facts)


def is_propagation(settings: Settings) -> bool:
    """Whether the scorer is a propagation model."""
    return fold_name(settings.scorer.model) == PROPAGATION


def has_rules(settings: Settings) -> bool:
    """Whether the scorer is NeuralLP or DRUM."""
    return fold_name(settings.scorer.model) in (fold_name(NEURAL_LP), DRUM)


def is_ntp(settings: Settings) -> bool:
    """Whether the scorer is NTP-λ."""
    return fold_name(settings.scorer.model) == NTP
