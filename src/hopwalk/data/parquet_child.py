"""Reads a Parquet file in a process of its own, as a script that imports polars only: `hopwalk.data.parquet` starts it.

The arguments are the file, the file for the columns (Arrow IPC), and the most memory in bytes. It prints the names of the columns
as JSON, reads the names of those to take, and prints `null`; or it prints the error as a text.
"""

from __future__ import annotations

import json
import sys


def main(path: str, out: str, most_bytes: str) -> None:
    """Write the columns that the parent asks for to a file."""
    _limit_memory(int(most_bytes))
    import polars as pl

    try:
        names = list(pl.read_parquet_schema(path))
        _print(names)
        columns = json.loads(sys.stdin.readline())
        pl.read_parquet(path, columns=columns).write_ipc(out)
        _print(None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        _print((str(error) or type(error).__name__).splitlines()[0][:300])


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _limit_memory(most_bytes: int) -> None:
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):  # Windows, or a limit that may not be set
        pass


if __name__ == "__main__":
    main(*sys.argv[1:4])
