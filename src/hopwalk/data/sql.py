"""Queries to databases, PostgreSQL through ADBC and SQLite through Python's own driver, and tables written to them.

Both talk in a child process, which is limited in memory and can be killed. The query is read inside another one, in a transaction
that cannot write, so a mistake in it changes nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data import sql_child
from hopwalk.data.addresses import Address, is_sqlite_file
from hopwalk.data.children import OVERHEAD_BYTES, ChildError, started
from hopwalk.errors import DataError, MissingPackageError
from hopwalk.utils.files import storing
from hopwalk.utils.text import shorten

IfExists = Literal["error", "append", "replace"]
MODES = {"error": "create", "append": "create_append", "replace": "replace"}
WRITE_SECONDS = 60
LONGEST_NAME = 63  # bytes of a table's name, in PostgreSQL
NO_QUERY = 'Give one with read.query, e.g. "select s, p, o from facts".'


def read_columns(
    address: Address, choose: Callable[[list[str]], Sequence[int]], settings: ReadSettings
) -> list[tuple[str, pl.DataFrame]]:
    """The columns of the query's result that `choose` picks by their names, as strings."""
    query = settings.query.strip().rstrip(";").rstrip()
    if not query:
        raise DataError("a database needs a query for its facts", path=address.shown, remedy=NO_QUERY)
    if address.kind == "sqlite" and not is_sqlite_file(Path(address.whole)):
        remedy = "Give the path of a file that SQLite wrote."
        raise DataError("there is no SQLite database of that name", path=address.shown, remedy=remedy)
    most_bytes = settings.expanded_mb * 10**6
    with tempfile.TemporaryDirectory(prefix="hopwalk-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "columns.arrow"
        request = _request(address, "read", file, settings.timeout) | {"query": query, "most_bytes": most_bytes}
        try:
            with started(sql_child, request, most_bytes=OVERHEAD_BYTES + 2 * most_bytes) as child:
                child.tell(list(choose(child.hear())))
                child.hear()
        except ChildError as error:
            raise _problem(address, error, settings) from None
        return [(address.shown, pl.read_ipc(file))]


def write_table(address: Address, frame: pl.DataFrame, table: str, *, if_exists: IfExists = "error") -> int:
    """Write a frame to a table, all of it or nothing; returns the number of rows. `table` may be `schema.table`."""
    schema, _, name = table.rpartition(".") if address.kind == "postgresql" else ("", "", table)
    if not name or "\x00" in table or max(len(name.encode()), len(schema.encode())) > LONGEST_NAME:
        remedy = f"Give a name of 1 to {LONGEST_NAME} bytes, for PostgreSQL also with a schema: schema.table."
        raise DataError(f"{shorten(table)!r} is not the name of a table", path=address.shown, remedy=remedy)
    with tempfile.TemporaryDirectory(prefix="hopwalk-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "rows.arrow"
        size = int(frame.estimated_size())
        with storing(file, size):
            frame.write_ipc(file)
        request = _request(address, "write", file, WRITE_SECONDS) | {"table": name, "schema": schema, "mode": MODES[if_exists]}
        try:
            with started(sql_child, request, most_bytes=OVERHEAD_BYTES + 4 * size) as child:
                return int(child.hear())
        except ChildError as error:
            if error.kind == "exists":
                remedy = "Choose another name, or append to it or replace it."
                raise DataError(f"there is already a table {shorten(table)!r}", path=address.shown, remedy=remedy) from None
            raise _problem(address, error, None) from None


def _request(address: Address, verb: str, file: Path, timeout: int) -> dict[str, Any]:
    whole = _with_defaults(address.whole, timeout) if address.kind == "postgresql" else address.whole
    return {"verb": verb, "kind": address.kind, "address": whole, "file": str(file), "timeout": timeout}


def _with_defaults(whole: str, timeout: int) -> str:
    """The address with a time to connect, with checks that the server is still there, and with UTF-8, unless it has its own."""
    given = urlsplit(whole).query
    defaults = {
        "connect_timeout": max(timeout, 2),
        "keepalives_idle": timeout,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "client_encoding": "UTF8",  # the driver expects it, whatever the database has
        "application_name": "hopwalk",
    }
    added = {name: value for name, value in defaults.items() if f"{name}=" not in given}
    return f"{whole}{'&' if given else '?'}{urlencode(added)}"


def _problem(address: Address, error: ChildError, settings: ReadSettings | None) -> DataError | MissingPackageError:
    """Our error for that of the child, without the credentials."""
    told = address.redact(str(error))
    if error.kind == "package":
        return MissingPackageError(str(error), "PostgreSQL")
    if error.kind == "limit" and settings is not None:
        problem = f"the result of the query has more than {settings.expanded_mb:,} MB"
        remedy = "Read a part of the facts, or set read.expanded_mb to a larger number."
    elif error.kind == "connect":
        problem = f"the database cannot be opened ({told})"
        remedy = "Check the address, the user and the password; it may stand in PGPASSWORD or ~/.pgpass."
    elif error.kind == "type":
        problem, remedy = told, "Set read.columns to choose other columns, or cast it to text in the query."
    elif error.kind == "query":
        problem = f"the database refused {'the query' if settings else 'the table'} ({told})"
        remedy = "Correct the query; nothing was changed." if settings else "Nothing was written."
    else:  # the child has ended
        problem, remedy = f"the database was left early: {told}", "Take fewer facts, or give the process more memory."
    return DataError(problem, path=address.shown, remedy=remedy)
