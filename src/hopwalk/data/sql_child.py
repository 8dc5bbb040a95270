"""Talks to a database in a process of its own, as a script that imports drivers and little else: `hopwalk.data.sql` starts it.

The argument is the most memory in bytes. The request says what to do:

- `read` a query: it prints the names of the columns as JSON, reads the places of those to take, writes them to an Arrow IPC file,
  and prints `null`.
- `write` an Arrow IPC file to a table, in one transaction: it prints the number of rows.

Or it prints an error, with its kind: `connect`, `query`, `exists`, `type`, `limit` or `package`.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from hopwalk.data.children import limit_memory, reply, request_of_parent

ROWS_AT_ONCE = 100_000
MOST_COLUMNS = 100


class RefusedError(Exception):
    """An error to print, with its kind."""

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(problem)
        self.kind = kind


def main(most_bytes: str) -> None:
    """Do what the request says."""
    limit_memory(int(most_bytes))
    request: dict[str, Any] = request_of_parent()
    does = {
        ("read", "postgresql"): _read_postgresql,
        ("write", "postgresql"): _write_postgresql,
        ("read", "sqlite"): _read_sqlite,
        ("write", "sqlite"): _write_sqlite,
    }
    try:
        reply(does[request["verb"], request["kind"]](request))
    except RefusedError as error:
        reply({"error": str(error), "kind": error.kind})
    except (sqlite3.Error, OSError) as error:
        reply({"error": str(error), "kind": "query"})
    except Exception as error:  # of polars, of ADBC: other modules, that may not be there
        reply({"error": _first_lines(error), "kind": "query"})


def _read_postgresql(request: dict[str, Any]) -> None:
    import polars as pl

    with closing(_connect(request)) as connection, closing(connection.cursor()) as cursor:
        _begin_reading(cursor, request)
        schema = _schema(connection, cursor, request)
        reply(list(schema))
        places = request_of_parent()
        _refuse_types({name: str(dtype) for name, dtype in schema.items() if _is_measure(dtype)}, list(schema), places)
        columns = ", ".join(f"c{place}::text AS c{place}" for place in places)
        cursor.execute(_around(request, columns, len(schema)))
        table = pl.DataFrame(cursor.fetch_arrow())
        if table.estimated_size() > request["most_bytes"]:
            raise RefusedError("limit", "")
        table.write_ipc(request["file"])


def _begin_reading(cursor: Any, request: dict[str, Any]) -> None:
    cursor.execute("SET TRANSACTION READ ONLY")
    cursor.execute(f"SET LOCAL lock_timeout = '{int(request['timeout'])}s'")


def _schema(connection: Any, cursor: Any, request: dict[str, Any]) -> Any:
    """Names and types of the columns. Those of a query in which two have the same name, as polars knows none, are numbered."""
    import polars as pl

    cursor.execute(f"{_around(request, '*', 0)} LIMIT 0")
    try:
        return pl.DataFrame(cursor.fetch_arrow()).schema
    except BaseException as error:  # a panic of polars is no Exception
        if "Duplicate" not in str(error):
            raise
    count = 2
    while count <= MOST_COLUMNS:
        connection.rollback()
        _begin_reading(cursor, request)
        try:
            cursor.execute(f"{_around(request, '1', count + 1)} LIMIT 0")
            cursor.fetch_arrow()
        except connection.ProgrammingError:  # more names than columns
            break
        count += 1
    connection.rollback()
    _begin_reading(cursor, request)
    cursor.execute(f"{_around(request, '*', count)} LIMIT 0")
    schema = pl.DataFrame(cursor.fetch_arrow()).schema
    return {f"column {number}": dtype for number, dtype in enumerate(schema.values(), start=1)}


def _around(request: dict[str, Any], columns: str, count: int) -> str:
    """A query for these columns of the user's, of which the first `count` are called c0, c1, …"""
    names = f" ({', '.join(f'c{place}' for place in range(count))})" if count else ""
    return f"SELECT {columns} FROM ({request['query']}\n) AS facts{names}"  # the line break ends a comment


def _write_postgresql(request: dict[str, Any]) -> int:
    import polars as pl

    table, schema = request["table"], request["schema"] or None
    frame = pl.read_ipc(request["file"])
    with closing(_connect(request)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{int(request['timeout'])}s'")
        try:
            cursor.adbc_ingest(table, frame, mode=request["mode"], db_schema_name=schema)
        except connection.ProgrammingError as error:
            if "already exists" in str(error):
                raise RefusedError("exists", "") from None
            raise
        connection.commit()
    return len(frame)


def _connect(request: dict[str, Any]) -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise RefusedError("package", "adbc-driver-postgresql") from None
    try:
        return dbapi.connect(request["address"])
    except dbapi.Error as error:
        raise RefusedError("connect", _first_lines(error)) from None


def _is_measure(dtype: Any) -> bool:
    """Whether a type of polars is that of a number with a fraction, a time or a truth value: no label."""
    return dtype.is_float() or dtype.is_decimal() or dtype.is_temporal() or dtype.is_nested() or str(dtype) == "Boolean"


def _refuse_types(refused: dict[str, str], names: list[str], places: list[int]) -> None:
    for place in places:
        if names[place] in refused:
            raise RefusedError("type", f"column {names[place]!r} is not valid: it contains {refused[names[place]]}, not text")


def _read_sqlite(request: dict[str, Any]) -> None:
    import polars as pl

    with closing(_open_sqlite(request, "ro")) as connection:
        cursor = connection.execute(f"SELECT * FROM ({request['query']}\n)")
        names = [name for name, *_ in cursor.description]
        reply(names)
        places = request_of_parent()
        left, chunks = request["most_bytes"], [_frame([], len(places))]
        for rows in _chunks(cursor, names, places):
            chunks.append(_frame(rows, len(places)))
            left -= chunks[-1].estimated_size()
            if left < 0:
                raise RefusedError("limit", "")
        pl.concat(chunks).write_ipc(request["file"])


def _chunks(cursor: sqlite3.Cursor, names: list[str], places: list[int]) -> Iterator[list[tuple[str | None, ...]]]:
    """The columns at these places as texts: SQLite's types belong to values, not to columns."""
    while rows := cursor.fetchmany(ROWS_AT_ONCE):
        for place in places:
            others = {type(row[place]).__name__ for row in rows} - {"str", "int", "NoneType"}
            if others:
                raise RefusedError("type", f"column {names[place]!r} is not valid: it contains {others.pop()}, not text")
        yield [tuple(None if row[place] is None else str(row[place]) for place in places) for row in rows]


def _frame(rows: list[tuple[str | None, ...]], width: int) -> Any:
    import polars as pl

    return pl.DataFrame(rows, schema={str(number): pl.String for number in range(width)}, orient="row")


def _write_sqlite(request: dict[str, Any]) -> int:
    import polars as pl

    frame = pl.read_ipc(request["file"])
    table, mode = _quoted(request["table"]), request["mode"]
    types = {
        name: "INTEGER" if dtype.is_integer() else "REAL" if dtype.is_float() else "TEXT" for name, dtype in frame.schema.items()
    }
    with closing(_open_sqlite(request, "rwc")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        is_there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (request["table"],)).fetchone()
        if is_there and mode == "create":
            raise RefusedError("exists", "")
        if is_there and mode == "replace":
            connection.execute(f"DROP TABLE {table}")
        if not is_there or mode == "replace":
            columns = ", ".join(f"{_quoted(name)} {type_}" for name, type_ in types.items())
            connection.execute(f"CREATE TABLE {table} ({columns})")
        names, marks = ", ".join(map(_quoted, types)), ", ".join("?" * len(types))
        connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", frame.iter_rows())
        connection.execute("COMMIT")
    return len(frame)


def _open_sqlite(request: dict[str, Any], mode: str) -> sqlite3.Connection:
    from pathlib import Path

    try:
        uri = f"{Path(request['address']).absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=request["timeout"], isolation_level=None)
    except (sqlite3.Error, ValueError) as error:
        raise RefusedError("connect", str(error)) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _first_lines(error: Exception) -> str:
    """What PostgreSQL says, without the query and the position in it, and without what the driver adds."""
    text = " ".join(str(error).partition("\nQuery was:")[0].partition("\nLINE ")[0].split())
    text = re.sub(r"^.*?(ERROR|FATAL|Failed to connect): +(?!connection to server.*(ERROR|FATAL): )", "", text)
    return re.sub(r"\.? SQLSTATE: \w+$", "", text)[:400] or type(error).__name__


if __name__ == "__main__":
    main(sys.argv[1])
