"""Training on several processes: the same result as one with the same batches, to rounding."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from hopwalk import api
from hopwalk.errors import ClusterError, ProcessLostError, SettingsError
from hopwalk.learning.processes import Processes, meeting
from hopwalk.learning.run import Run
from hopwalk.propagation.graph import build_run_graph
from hopwalk.propagation.queries import QuerySampler, some_tasks
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.training import PropagationLearner
from hopwalk.utils.places import Here
from tests.support.processes_alike import assert_alike
from tests.support.villages import PROPAGATION_SET, VILLAGE, propagation_of


class Whole(Processes):
    """A process alone, which keeps the gradient."""

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        self.sent = [tensor.clone() for tensor in tensors]


def test_parts_are_whole_and_nearly_equal():
    for count in (1, 2, 3, 7):
        shares = [Processes(rank, count).share_of(16) for rank in range(count)]
        assert [row for share in shares for row in range(16)[share]] == list(range(16))
        sizes = [share.stop - share.start for share in shares]
        assert max(sizes) - min(sizes) <= 1


def test_parts_of_a_batch_are_its_queries():
    settings = propagation_of(num_targets=3).propagation
    graph = build_run_graph(VILLAGE.facts, len(VILLAGE.entities), len(VILLAGE.relations))
    batch = QuerySampler(graph, VILLAGE, settings).batch(0, 7)
    parts = [some_tasks(batch, Processes(rank, 3).share_of(7)) for rank in range(3)]
    for name in ("heads", "relations", "hidden", "targets", "filtered", "seeds"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(batch, name))
    for name in ("hidden", "target", "filtered"):
        lengths = np.concatenate([np.diff(getattr(part, f"{name}_offsets")) for part in parts])
        assert np.array_equal(lengths, np.diff(getattr(batch, f"{name}_offsets")))


class OneOfTwo(Processes):
    """A process that waits for nobody, and keeps what it would send."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, 2)
        self.sent: list[torch.Tensor] = []

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        self.sent = [tensor.clone() for tensor in tensors]


def test_parts_of_a_gradient_add_up_to_it():
    """A batch of seven, so that the parts have three and four; no gradient of a negative is sampled."""
    settings = propagation_of(batch_size=7, negative_threshold=0.0, num_targets=3).propagation

    def sent_by(process: OneOfTwo | Whole) -> list[torch.Tensor]:
        scorer = PropagationScorer(len(VILLAGE.entities), len(VILLAGE.relations), settings, VILLAGE.facts)
        PropagationLearner(scorer, VILLAGE, settings, process)._step(3)
        return process.sent

    first, second = sent_by(OneOfTwo(0)), sent_by(OneOfTwo(1))
    for one, other, whole in zip(first, second, sent_by(Whole()), strict=True):
        torch.testing.assert_close(one + other, whole, rtol=1e-4, atol=1e-6)


def test_torchrun_trains_the_same_model(propagation_run: Path, village_folder: Path):
    """Two processes of the command line, each with half of every batch."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "hopwalk"]
    settings = [part for name, value in _reading_of(propagation_run).items() for part in ("--set", f"{name}={value}")]
    told = subprocess.run(
        [*command, "train", "village", "--out", "both", *PROPAGATION_SET, *settings],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("both: finished") == 1
    assert_alike(Run.open("both"), Run.open(propagation_run))


def _reading_of(run: Path) -> dict[str, object]:
    """The settings of propagation that the command line would choose otherwise."""
    own = Run.open(run).settings.propagation.model_dump()
    return {f"propagation.{name}": str(value).lower() if isinstance(value, bool) else value for name, value in own.items()}


def test_mistakes_are_refused(tmp_path: Path):
    with pytest.raises(SettingsError, match="a batch of 4 queries cannot be shared by 5 processes"):
        Processes(0, 5).require_parts(4)
    with pytest.raises(SettingsError, match="needs a cluster"):
        api.train_scorer(VILLAGE, propagation_of(), out=tmp_path / "run", place=Here(), processes=2)
    assert not (tmp_path / "run").exists()


def test_processes_that_do_not_come_are_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hopwalk.learning.processes.SECONDS_TO_MEET", 1.0)
    with pytest.raises(ClusterError, match=r"do not meet at 127\.0\.0\.1:1 "), meeting("127.0.0.1:1", 1, 2):
        pass
    assert issubclass(ProcessLostError, ClusterError)
