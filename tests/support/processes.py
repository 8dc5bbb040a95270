"""The command line in a process of its own."""

import os
import subprocess
import sys


def hopwalk(*arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `hopwalk ARGUMENTS`; it must exit with the code, and without a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "hopwalk", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done
