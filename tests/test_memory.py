"""A limit on memory (`ulimit -v`): reading, training and asking end with our error and what to do, never with a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

import hopwalk
from hopwalk.utils.memory import memory_error
from tests.support.schools import SCHOOL

# Limits at which a library cannot be loaded, which is where it is hardest to say anything.
LIMITS = [("read", 1000), ("train", 1200), ("ask", 500), ("read", 600), ("read", 680), ("list", 600)]


@pytest.mark.parametrize(("what", "limit"), LIMITS)
def test_out_of_memory(tmp_path: Path, village_run: Path, what: str, limit: int):
    pytest.importorskip("resource")
    hopwalk.write_folder(SCHOOL, tmp_path / "school")
    commands = {
        "read": ["data", "check", str(tmp_path / "school")],
        "train": ["train", str(tmp_path / "school"), "--scorer", "distmult", "--out", str(tmp_path / "run")],
        "ask": ["ask", str(village_run), "child 0", "uncle"],
        "list": ["data", "list"],
    }
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv.pop(1)) * 2**20,) * 2); "
    done = subprocess.run(
        [sys.executable, "-c", limited + "from hopwalk.cli.main import run; run()", str(limit), *commands[what]],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr[-2000:]
    assert len(done.stderr) < 1000  # an allocator once wrote megabytes
    assert "memory ran out" in done.stderr and "Give the process more memory" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_library_that_cannot_be_loaded():
    try:
        try:
            raise OSError("libx.so: failed to map segment from shared object")
        except OSError as error:
            raise OSError("Could not find/load shared object file") from error
    except OSError as error:
        assert memory_error(error) is not None
    assert memory_error(OSError("no such file")) is None
