"""PyKEEN's models, tiny, a ring of facts for them to learn, and settings of their runs."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from hopwalk.config.settings import ScorerSettings, Settings, changed
from hopwalk.data.triples import Triples
from hopwalk.learning.optimizers import Optimizer
from hopwalk.scorers.pykeen import PykeenScorer
from hopwalk.scorers.queries import Batch, TrainingQueries
from tests.support.helpers import dataset_of

# Every model of PyKEEN's that can be a scorer; a test fails if PyKEEN has others.
PLAIN = [
    *("AutoSF", "BoxE", "ComplEx", "ConvE", "ConvKB", "CP", "CrossE", "DistMA", "DistMult", "ERMLP", "ERMLPE", "HolE", "KG2E"),
    *("MuRE", "NTN", "PairRE", "ProjE", "QuatE", "RESCAL", "RotatE", "SE", "SimplE", "TorusE", "TransD", "TransE", "TransF"),
    *("TransH", "TransR", "TuckER", "UM"),
]
ON_GRAPH = ["CompGCN", "NodePiece", "RGCN"]  # these need the facts
ONLY_WITH_INVERSES = ["CompGCN", "NodePiece"]

E, R, D = 11, 3, 8
RING = Triples.of(
    sorted({(head, relation, (head + relation + 1) % E) for head in range(E) for relation in range(R)} | {(0, 0, 5), (0, 0, 6)})
)
FEW_FILTERS = {"ConvKB": "num_filters = 20", "CP": "rank = 2"}


def settings_of(name: str, **values: Any) -> ScorerSettings:
    plain: dict[str, Any] = {
        "model": f"pykeen:{name}",
        "dimension": D,
        "model_options": FEW_FILTERS.get(name, ""),
        "optimizer": "adam",
    }
    return ScorerSettings(**(plain | {"learning_rate": 0.01} | values))


def scorer_of(name: str, **values: Any) -> PykeenScorer:
    return PykeenScorer.build(E, R, settings_of(name, **values), RING if name in ON_GRAPH else None).eval()


def all_queries() -> tuple[Tensor, Tensor]:
    """Every entity with every relation and every inverse one, mixed."""
    pairs = torch.cartesian_prod(torch.arange(E), torch.arange(2 * R))
    pairs = pairs[torch.randperm(len(pairs), generator=torch.Generator().manual_seed(1))]
    return pairs[:, 0], pairs[:, 1]


@cache
def ring_batch() -> Batch:
    dataset = dataset_of([(f"e{head:02}", f"r{relation}", f"e{tail:02}") for head, relation, tail in RING.array().tolist()])
    (batch,) = TrainingQueries.of(dataset).batches(1000, torch.Generator().manual_seed(0))
    return batch


def scores_of(scorer: PykeenScorer, most: int = 2 * R * E) -> Tensor:
    with torch.inference_mode():
        return scorer.eval().score_all_tails(*(ids[:most] for ids in all_queries()))


def learn(scorer: PykeenScorer, steps: int = 1, batch: Batch | None = None) -> list[float]:
    optimizer, generator = (
        Optimizer(scorer, scorer.settings.optimizer, scorer.settings.learning_rate),
        torch.Generator().manual_seed(3),
    )
    scorer.train()
    return [scorer.learn(batch or ring_batch(), optimizer, generator) for _ in range(steps)]


SCHOOL = [(f"teacher {room}", "teaches", f"pupil {room}{number}") for room in "abc" for number in range(3)]
SCHOOL += [(pupil, "taught_by", teacher) for teacher, _, pupil in SCHOOL[:-3]]
DEV = [("pupil c0", "taught_by", "teacher c"), ("pupil c1", "taught_by", "teacher c"), ("pupil c2", "taught_by", "teacher c")]


def run_settings(model: str, **values: Any) -> Settings:
    plain = {"model": model, "dimension": D, "epochs": 4, "batch_size": 7, "optimizer": "adam", "learning_rate": 0.02}
    return changed(Settings(), {f"scorer.{name}": value for name, value in (plain | values).items()})
