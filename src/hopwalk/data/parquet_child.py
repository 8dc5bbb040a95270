"""Reads Parquet files in a process of its own, as a script that imports polars and little else: `hopwalk.data.parquet` starts it.

The argument is the most memory in bytes. The request has the files, the values of columns that stand in their paths, the folder
for the columns (an Arrow IPC file for each), and the most bytes of all columns. It prints the names of the columns as JSON, reads
the places of those to take, and prints `null`; or it prints an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hopwalk.data.children import limit_memory, reply, request_of_parent


def main(most_bytes: str) -> None:
    """Write the columns that the parent asks for to files."""
    limit_memory(int(most_bytes))
    import polars as pl

    request, number = request_of_parent(), 0
    try:
        names: list[str] = []
        places: list[int] = []
        left = request["most_bytes"]
        for number, (path, values) in enumerate(request["files"]):
            has = list(dict.fromkeys([*pl.read_parquet_schema(path), *values]))
            if not number:
                names = has
                reply(names)
                places = request_of_parent()
            wanted = [names[place] for place in places]
            if missing := [name for name in wanted if name not in has]:
                reply({"error": f"there is no column {missing[0][:100]!r}, which the first file has", "file": number})
                return
            stored = [name for name in wanted if name not in values] or has[:1]  # one column at least, for the number of rows
            literals = [pl.lit(values[name], dtype=pl.String).alias(name) for name in wanted if name in values]
            table = pl.read_parquet(path, columns=stored).with_columns(literals).select(wanted)
            left -= table.estimated_size()
            if left < 0:
                reply({"error": "limit", "kind": "limit", "file": number})
                return
            table.write_ipc(Path(request["out"]) / f"{number}.arrow")
        reply(None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reply({"error": (str(error) or type(error).__name__).splitlines()[0][:300], "file": number})


if __name__ == "__main__":
    main(sys.argv[1])
