"""Reader of RDF files (N-Triples, Turtle, N-Quads, TriG, RDF/XML) with pyoxigraph, an optional package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl

from hopwalk.data.findings import Finding
from hopwalk.data.source import Source
from hopwalk.errors import DataError, MissingPackageError

RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SUFFIXES = {".nt": "nt", ".ttl": "ttl", ".turtle": "ttl", ".n3": "n3", ".nq": "nq", ".trig": "trig", ".jsonld": "jsonld"}
SUFFIXES |= dict.fromkeys((".rdf", ".owl", ".xml"), "rdf")
CHUNK = 1_000_000


def read_triples(source: Source) -> tuple[pl.DataFrame, dict[str, str], list[Finding]]:
    """The columns `head`, `relation`, `tail`, the readable names from `rdfs:label`, and findings."""
    try:
        import pyoxigraph
    except ImportError:
        raise MissingPackageError("pyoxigraph", "Reading RDF") from None

    rows: list[tuple[str, str, str]] = []
    chunks: list[pl.DataFrame] = []
    names: dict[str, tuple[int, str]] = {}
    key = _Keys(Path(source.name).stem)
    num_literals = num_nested = 0
    format_ = pyoxigraph.RdfFormat.from_extension(_extension(source))
    with source.open() as file:
        parsed = pyoxigraph.parse(file, format=format_)
        try:
            for quad in parsed:
                if isinstance(quad.object, pyoxigraph.Literal):
                    if quad.predicate.value == RDFS_LABEL:
                        keep_better_name(names, key(quad.subject), quad.object.value, quad.object.language or "")
                    else:
                        num_literals += 1
                elif isinstance(quad.subject, pyoxigraph.Triple) or isinstance(quad.object, pyoxigraph.Triple):
                    num_nested += 1
                else:
                    rows.append((key(quad.subject), quad.predicate.value, key(quad.object)))
                    if len(rows) == CHUNK:
                        chunks.append(_frame(rows))
                        rows = []
        except (SyntaxError, ValueError, OSError) as error:
            line = getattr(error, "lineno", None)
            remedy = "Correct the file, or set read.format if it is not RDF."
            raise DataError(f"the RDF is not valid: {error}", path=source.name, line=line, remedy=remedy) from None
        except MemoryError as error:
            if "maximal size" not in str(error):
                raise
            problem = "the RDF has a part of more than 16 MB, the most of a name or text"
            raise DataError(problem, path=source.name, remedy="Set read.format if it is not RDF.") from None
    triples = pl.concat([*chunks, _frame(rows)])
    findings = []
    for count, what in (
        (num_literals, "a value (number, date, text) as object"),
        (num_nested, "a statement as subject or object"),
    ):
        if count:
            message = f"{source.name}: statements with {what} (ignored, as walks go from entity to entity): {count:,}"
            findings.append(Finding("note", "literals", message, count))
    if triples.is_empty():
        remedy = "Expected statements whose subject and object are both IRIs or blank nodes."
        raise DataError("the file has no facts between entities", path=source.name, remedy=remedy)
    return triples, {key: name for key, (_, name) in names.items()}, findings


def _extension(source: Source) -> str:
    """The extension that pyoxigraph uses for the format: from the name, else XML or Turtle by the first bytes."""
    if source.suffix in SUFFIXES:
        return SUFFIXES[source.suffix]
    with source.open() as file:
        return "rdf" if file.read(100).lstrip().startswith((b"<?xml", b"<rdf:RDF")) else "ttl"


class _Keys:
    """Labels of nodes: an IRI as it is, a blank node as `_:name`.

    The parser gives unnamed blank nodes a long random name. Here they are numbered in order, so that the same file always has the
    same labels. Names in files contain no blank, so these labels cannot collide with them.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin  # unnamed nodes of different files are different
        self._unnamed: dict[str, str] = {}

    def __call__(self, node: Any) -> str:
        if type(node).__name__ == "NamedNode":
            return str(node.value)
        if re.fullmatch(r"[0-9a-f]{20,32}", node.value):
            return self._unnamed.setdefault(node.value, f"_:unnamed {self._origin} {len(self._unnamed) + 1}")
        return str(node)


def keep_better_name(names: dict[str, tuple[int, str]], key: str, name: str, language: str) -> None:
    """Prefer English, then no language, then others; of equals the first in the alphabet, whatever the order of lines."""
    preference = 0 if language.lower().split("-")[0] == "en" else 1 if not language else 2
    candidate = (preference, name)
    if candidate[1] and (key not in names or candidate < names[key]):
        names[key] = candidate


def _frame(rows: list[tuple[str, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"head": pl.String, "relation": pl.String, "tail": pl.String}, orient="row")
