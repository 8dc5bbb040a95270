"""Addresses of databases and SPARQL endpoints. What is shown, stored and named after one never has its user, password or keys."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from hopwalk.errors import DataError

Kind = Literal["postgresql", "sqlite", "sparql"]
KINDS: dict[str, Kind] = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "sqlite": "sqlite",
    "http": "sparql",
    "https": "sparql",
}
EXAMPLES = "postgresql://user@host/database, sqlite:///file.db, or https://host/sparql for a SPARQL endpoint"
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # one slash: a Path keeps no more; two letters: C:/ is a folder
CONNECTION_STRING = re.compile(r"(?:^|[\s;])(password|pwd|sslpassword)\s*=", re.IGNORECASE)
HOST = re.compile(r"[\w.-]*(:\d*)?|\[[0-9A-Fa-f:.%]+\](:\d*)?")
SQLITE_BEGINS = b"SQLite format 3\x00"
SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
HIDDEN = "…"


@dataclass(frozen=True, repr=False)
class Address:
    """Where data lives. `shown` is for messages, `name` for data sets and folders; `whole` has the credentials and stays here."""

    kind: Kind
    shown: str
    name: str
    whole: str = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    @classmethod
    def of(cls, text: str) -> Address:
        """The address; an error that does not repeat it if it is not one."""
        scheme = text.partition(":")[0].lower()
        kind = KINDS.get(scheme)
        if kind is None:
            remedy = f"Give an address such as {EXAMPLES}; or the path of a file."
            raise DataError(f"addresses that begin with {scheme}: are not known", remedy=remedy)
        if kind == "sqlite":
            return cls.of_file(Path(unquote(text.partition("://")[2].removeprefix("/"))))
        return _of_network(kind, text)

    @classmethod
    def of_file(cls, path: Path) -> Address:
        """The address of an SQLite file."""
        if path.name in ("", ":memory:"):
            raise DataError("the address names no file", remedy="Write sqlite:///file.db, or sqlite:////folder/file.db.")
        return cls("sqlite", str(path), _named(path.stem), str(path))

    def redact(self, text: str) -> str:
        """A text of others, such as an error of a driver, without the credentials."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text


def is_address(text: str) -> bool:
    """Whether the text is an address rather than a name or a path.

    >>> is_address("postgresql://host/facts"), is_address("facts.csv"), is_address("C:/facts.csv")
    (True, False, False)
    """
    return SCHEME.match(text) is not None


def is_sqlite_file(path: Path) -> bool:
    """Whether the path is a file that SQLite wrote."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(SQLITE_BEGINS)) == SQLITE_BEGINS
    except (OSError, ValueError):
        return False


def refuse_connection_string(text: str) -> None:
    """An error, which does not repeat the text, if it has a password but is not an address."""
    if CONNECTION_STRING.search(text):
        problem = "a connection string with a password is not an address"
        raise DataError(problem, remedy="Write postgresql://user@host/database, with the password in PGPASSWORD or ~/.pgpass.")


def _of_network(kind: Kind, text: str) -> Address:
    scheme, _, rest = text.partition("://")
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, _, host = place.rpartition("@")
    after = rest[len(place) :]
    hosts = host.split(",") if kind == "postgresql" else [host]  # libpq tries several
    if (kind == "postgresql" and "@" in after.partition("?")[0]) or not all(HOST.fullmatch(one) for one in hosts):
        remedy = "Write @ : / ? # and % in a user name or password as %40 %3A %2F %3F %23 and %25."
        raise DataError(f"the address {scheme.lower()}://… is not valid", remedy=remedy)
    if kind == "sparql" and not host:
        raise DataError("the address has no host", remedy=f"Give an address such as {EXAMPLES}.")
    split = urlsplit(f"//{host}{after}")
    shown = f"{scheme.lower()}://{host}{split.path}"
    database = unquote(split.path.strip("/"))
    name = database if kind == "postgresql" and database else re.sub(r":\d*$", "", host)
    return Address(kind, shown, _named(name or "postgresql"), text, _secrets(user, split.query))


def _secrets(user: str, parameters: str) -> tuple[str, ...]:
    """The texts that must not be shown: the password as it is written and as it is meant, and the values of parameters."""
    password = user.partition(":")[2]
    values = [value for name, value in parse_qsl(parameters) if re.search(r"pass|key|token|secret|auth", name, re.IGNORECASE)]
    return tuple({text for one in (password, *values) for text in (one, unquote(one)) if text})


def _named(text: str) -> str:
    """The text as a name for folders."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "facts"
