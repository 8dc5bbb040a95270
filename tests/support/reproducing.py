"""A reproduction in the smallest form there is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopwalk import api
from hopwalk.paper import running
from hopwalk.paper.running import Reproduced, reproduce

TINY = (
    "scorer.epochs=1",
    "scorer.dimension=30",
    "scorer.batch_size=2048",
    "rules.queries=64",
    "rules.evaluations=1",
    "propagation.queries=64",
    "propagation.layers=2",
    "propagation.width=8",
    "propagation.evaluations=1",
    "walker.epochs=1",
    "walker.evaluate_every=1",
    "walker.batch_size=2048",
    "walker.rollouts=1",
    "walker.dimension=4",
    "walker.history_dimension=4",
    "walker.history_layers=1",
    "walk.beam=8",
)
SCORER, WALKER = "umls-complex-modern-quick-0", "umls-modern-complex-quick-0"  # two of the runs


def reproduce_tiny(names: list[str], folder: Path, changes: tuple[str, ...] = TINY, **options: Any) -> Reproduced:
    """Reproduce tables of UMLS with tiny models, from a tenth of its facts."""
    umls = api.load_dataset("umls")
    part = replace(umls, facts=umls.facts[::10], train=umls.train[::10], valid=umls.valid[::10], test=umls.test[::10])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "load_dataset", lambda *_, **__: part)
        return reproduce(names, out=folder, quick=True, changes=changes, **options)
