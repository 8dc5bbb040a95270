"""Facts of a SPARQL endpoint: a query, read page by page until a page is empty, and the readable names of what it found.

An endpoint may cut answers short, repeat itself, trickle, or answer with something else. What it sends is counted against a
limit, every answer has a deadline, failures that may pass are tried again, and what cannot be right is an error.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data.addresses import Address
from hopwalk.data.findings import Finding
from hopwalk.data.rdf import RDFS_LABEL, keep_better_name
from hopwalk.errors import DataError
from hopwalk.utils.files import parse_json
from hopwalk.utils.text import shorten

if TYPE_CHECKING:  # requests is imported when an endpoint is asked
    import requests

ALL_FACTS = "SELECT ?subject ?predicate ?object WHERE { ?subject ?predicate ?object FILTER(isIRI(?subject) && isIRI(?object)) }"
RESULTS_JSON = "application/sparql-results+json"
SECONDS_BETWEEN_TRIES = (1.0, 4.0)
LONGEST_WAIT = 30.0  # seconds that an endpoint may ask us to wait
PASSING = (408, 429, 500, 502, 503, 504)  # answers after which it is asked again
NAMES_AT_ONCE = 500
CHUNK = 2**16
UNQUOTED = re.compile(r"<[^<>\"{}|^`\\\s]*>|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|#[^\n]*")
IRI = re.compile(r"[^<>\"{}|^`\\\x00-\x20]+")
TERMS = ("uri", "bnode", "literal", "typed-literal")

Row = tuple[str, ...]


@dataclass
class Endpoint:
    """An endpoint that is being read: how much it may still send, and what was left out."""

    address: Address
    settings: ReadSettings
    on_bytes: Callable[[int], None] = lambda _: None
    bytes_read: int = 0
    num_values: int = 0
    num_blank: int = 0
    _session: requests.Session | None = field(default=None, repr=False)

    def read_columns(self, choose: Callable[[list[str]], Sequence[int]]) -> list[tuple[str, pl.DataFrame]]:
        """The columns of the query's result that `choose` picks by the names of its variables. Only IRIs are labels."""
        query = self.settings.query.strip() or ALL_FACTS
        has_order, has_limit = _modifiers(query)
        first = self._ask(query if has_limit else f"{query}\nLIMIT 1")
        variables = first.variables
        places = list(choose(variables))
        order = "" if has_order else f"\nORDER BY {' '.join(f'?{name}' for name in variables)}"
        pages = [first.rows] if has_limit else self._pages(query + order)
        taken = [variables[place] for place in places]
        schema = {str(number): pl.String for number in range(len(taken))}
        frames = [pl.DataFrame(list(self._labels(page, taken)), schema=schema, orient="row") for page in pages]
        return [(self.address.shown, pl.concat([pl.DataFrame(schema=schema), *frames]))]

    def names_of(self, labels: Iterable[str]) -> dict[str, str]:
        """The `rdfs:label` of these IRIs: English, else without a language, else the first in the alphabet."""
        wanted = sorted(label for label in labels if IRI.fullmatch(label))
        english = 'FILTER(lang(?label) = "" || langMatches(lang(?label), "en"))'
        found: dict[str, tuple[int, str]] = {}
        for part in _batches(wanted):
            query = f"SELECT ?entity ?label WHERE {{ {_values(part)} ?entity <{RDFS_LABEL}> ?label {english} }}"
            for row in self._ask(query).rows:
                if row.get("label", {}).get("value"):
                    name, language = row["label"]["value"], row["label"].get("xml:lang", "")
                    keep_better_name(found, row["entity"]["value"], str(name), str(language))
        others = [label for label in wanted if label not in found]
        for part in _batches(others):
            pattern = f"{_values(part)} ?entity <{RDFS_LABEL}> ?name"
            query = f"SELECT ?entity (MIN(STR(?name)) AS ?label) WHERE {{ {pattern} }} GROUP BY ?entity"
            rows = [row for row in self._ask(query).rows if "entity" in row and row.get("label", {}).get("value")]
            found |= {row["entity"]["value"]: (2, row["label"]["value"]) for row in rows}
        return {label: name for label, (_, name) in found.items()}

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()

    def findings(self) -> list[Finding]:
        """What was left out."""
        found, shown = [], self.address.shown
        if self.num_values:
            message = f"{shown}: statements with a value (number, date, text) as object (ignored): {self.num_values:,}"
            found.append(Finding("note", "literals", message, self.num_values))
        if self.num_blank:
            message = (
                f"{shown}: statements with blank nodes (ignored, as their names differ from page to page): {self.num_blank:,}"
            )
            found.append(Finding("warning", "blank-nodes", message, self.num_blank))
        return found

    def _pages(self, query: str) -> Iterator[list[dict[str, Any]]]:
        """The pages of the result, until one is empty: an endpoint may send fewer rows than it was asked for."""
        size, num_rows, seen = self.settings.page, 0, set()
        while rows := self._ask(f"{query}\nLIMIT {size} OFFSET {num_rows}").rows:
            if len(rows) > size:
                raise self._lie(f"it sent {len(rows):,} rows where {size:,} were asked for: it ignores LIMIT")
            digest = hashlib.sha256(repr(rows).encode()).digest()
            if digest in seen:
                raise self._lie("it sent a page twice: it ignores OFFSET or ORDER BY")
            seen.add(digest)
            num_rows += len(rows)
            yield rows

    def _labels(self, rows: list[dict[str, Any]], variables: Sequence[str]) -> Iterator[tuple[str | None, ...]]:
        """The values of the rows in which all are IRIs or missing; the others are counted."""
        for row in rows:
            terms = [row.get(variable) for variable in variables]
            types = {term["type"] for term in terms if term is not None}
            if types & {"literal", "typed-literal"}:
                self.num_values += 1
            elif "bnode" in types:
                self.num_blank += 1
            else:
                yield tuple(None if term is None else term["value"] for term in terms)

    def _ask(self, query: str) -> Result:
        """The result of a query; what may pass is tried again."""
        for wait in (*SECONDS_BETWEEN_TRIES, None):
            try:
                return self._result(self._answer(query))
            except _RefusedError as refused:
                if wait is None or not refused.may_pass:
                    raise self._failure(refused) from None
                time.sleep(max(wait, refused.wait))
        raise AssertionError("the last try returns or raises")

    def _answer(self, query: str) -> bytes:
        """The bytes of the answer. The request runs in a thread, since a timeout of requests begins again with every byte."""
        results: SimpleQueue[bytes | Exception] = SimpleQueue()
        is_over = threading.Event()

        def work() -> None:
            try:
                results.put(self._request(query, is_over))
            except Exception as error:
                results.put(error)

        threading.Thread(target=work, daemon=True).start()
        try:
            found = results.get(timeout=self.settings.timeout)
        except Empty:
            self._session = None  # the thread keeps its connection
            raise self._late() from None
        finally:
            is_over.set()
        if isinstance(found, Exception):
            raise found
        return found

    def _request(self, query: str, is_over: threading.Event) -> bytes:
        """The bytes of the answer, within the limit."""
        import requests

        session, content = self._session or self._open(requests.Session()), bytearray()
        try:
            with session.post(self._url(), data={"query": query}, stream=True, timeout=self.settings.timeout) as response:
                if not response.ok:
                    raise _refusal(response)
                self._require_results(response)
                for chunk in response.iter_content(CHUNK):
                    if is_over.is_set():
                        break
                    content += chunk
                    self._count(len(chunk))
        except requests.Timeout:
            raise self._late() from None
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.TooManyRedirects) as error:
            raise _RefusedError(f"the address cannot be asked ({type(error).__name__})", may_pass=False) from None
        except requests.RequestException:
            raise _RefusedError("no connection, or one that broke off") from None
        return bytes(content)

    def _count(self, num_bytes: int) -> None:
        self.bytes_read += num_bytes
        self.on_bytes(num_bytes)
        if self.bytes_read > self.settings.expanded_mb * 10**6:
            problem = f"the endpoint sent more than {self.settings.expanded_mb:,} MB"
            remedy = "Ask for fewer facts with read.query, or set read.expanded_mb to a larger number."
            raise DataError(problem, path=self.address.shown, remedy=remedy)

    def _late(self) -> _RefusedError:
        reason = f"no whole answer within {self.settings.timeout} seconds"
        return _RefusedError(reason, remedy="Set read.timeout to more seconds, or a smaller read.page.")

    def _open(self, session: requests.Session) -> requests.Session:
        address = urlsplit(self.address.whole)
        session.headers.update({"Accept": RESULTS_JSON, "User-Agent": f"hopwalk/{version('hopwalk')}"})
        if address.username is not None:
            session.auth = (unquote(address.username), unquote(address.password or ""))
        self._session = session
        return session

    def _url(self) -> str:
        """The address without user and password, which go into a header."""
        address = urlsplit(self.address.whole)
        return urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path, address.query, ""))

    def _require_results(self, response: requests.Response) -> None:
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind and "json" not in kind:
            raise self._lie(f"it sent {shorten(kind)}, not {RESULTS_JSON}")
        if response.headers.get("X-SQL-State"):  # of Virtuoso, whose time was over
            raise self._lie("it sent a part of the result and says that its time was over")

    def _result(self, content: bytes) -> Result:
        try:
            parsed = parse_json(content)
            variables = [str(name) for name in parsed["head"]["vars"]]
            rows = parsed["results"]["bindings"]
            if not all(re.fullmatch(r"\w+", name) for name in variables):
                raise ValueError("a variable has no name")
            if not all(isinstance(row, dict) and all(map(_is_term, row.values())) for row in rows):
                raise ValueError("a row is not a table of terms")
        except (ValueError, KeyError, TypeError) as error:
            raise self._lie(f"its answer is not a result of a SELECT query ({shorten(str(error))})") from None
        return Result(variables, rows)

    def _lie(self, problem: str) -> DataError:
        remedy = "Check that this is the address of a SPARQL endpoint; try a smaller read.page, or a read.query with a LIMIT."
        return DataError(f"the endpoint cannot be read: {problem}", path=self.address.shown, remedy=remedy)

    def _failure(self, refused: _RefusedError) -> DataError:
        problem = f"the endpoint cannot be read: {self.address.redact(str(refused))}"
        return DataError(problem, path=self.address.shown, remedy=refused.remedy)


class _RefusedError(Exception):
    """A request that failed, and whether it is worth another try, after how many seconds."""

    def __init__(
        self,
        reason: str,
        *,
        may_pass: bool = True,
        wait: float = 0.0,
        remedy: str = "Check the address and the connection, and try again.",
    ) -> None:
        super().__init__(reason)
        self.may_pass, self.wait, self.remedy = may_pass, wait, remedy


def _refusal(response: requests.Response) -> _RefusedError:
    """The refusal that an endpoint answered with."""
    status, asked = response.status_code, response.headers.get("Retry-After", "")
    remedy = "Correct the query, or try again later."
    if status in (401, 403):
        remedy = "Check the user and the password: https://user:password@host/sparql."
    wait = min(float(asked), LONGEST_WAIT) if asked.isdecimal() else 0.0
    return _RefusedError(f"the server answered {status}{_told(response)}", may_pass=status in PASSING, wait=wait, remedy=remedy)


@dataclass(frozen=True)
class Result:
    """The variables of a query, and a table of terms by variable for each row."""

    variables: list[str]
    rows: list[dict[str, Any]]


def _modifiers(query: str) -> tuple[bool, bool]:
    """Whether the query has an ORDER BY, and a LIMIT or OFFSET, of its own: after its last brace.

    >>> _modifiers('SELECT * { ?s ?p "LIMIT 5" } # LIMIT 6'), _modifiers("SELECT * { ?s ?p ?o } ORDER BY ?s LIMIT 5")
    ((False, False), (True, True))
    """
    after = UNQUOTED.sub(" ", query).rpartition("}")[2].upper()
    return re.search(r"\bORDER\s+BY\b", after) is not None, re.search(r"\b(LIMIT|OFFSET)\b", after) is not None


def _batches(labels: list[str]) -> Iterator[list[str]]:
    return (labels[start : start + NAMES_AT_ONCE] for start in range(0, len(labels), NAMES_AT_ONCE))


def _values(labels: Iterable[str]) -> str:
    return f"VALUES ?entity {{ {' '.join(f'<{label}>' for label in labels)} }}"


def _is_term(term: Any) -> bool:
    return isinstance(term, dict) and term.get("type") in TERMS and isinstance(term.get("value"), str)


def _told(response: requests.Response) -> str:
    """The first line of what an endpoint says about an error."""
    import requests

    try:
        text = next(response.iter_content(1000), b"").decode(errors="replace").strip()
    except requests.RequestException:
        return ""
    is_text = response.headers.get("Content-Type", "").startswith("text/plain")
    return f" ({shorten(text.splitlines()[0], 200)})" if text and is_text else ""
