"""Training on several processes: the same result as one with the same batches, to rounding."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.errors import ClusterError, ProcessLostError, SettingsError
from hopwalk.learning.processes import Processes, meeting
from hopwalk.learning.run import Run
from hopwalk.propagation.graph import build_run_graph
from hopwalk.propagation.queries import QuerySampler, some_tasks
from hopwalk.utils.places import Here
from tests.support.processes_alike import assert_alike
from tests.support.villages import PROPAGATION_SET, VILLAGE, propagation_of


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
