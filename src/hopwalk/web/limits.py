"""Limits of requests and of the queue. Whatever is beyond a limit is refused with an error that names the limit."""

from __future__ import annotations

from dataclasses import dataclass

MOST_ANSWERS = 100  # of a query: k
MOST_PATHS = 20  # of an answer
MOST_FOUND = 100  # names found by a search
MOST_DRAWN = 50  # paths sent to be drawn
MOST_EDGES = 16  # of a path that is drawn
WIDTHS = (240, 2400)  # of a drawing, in pixels
MOST_OFFSET = 100_000_000  # of a page of facts
MOST_CHARACTERS = 12_000  # of the name of an entity or of a relation
MOST_OF_RUN = 255  # characters of the name of a run, which is a folder's
MOST_BODY_BYTES = 512 * 1024  # three names of that length fit, each letter written as \uXXXX\uXXXX
MOST_TYPED = 1_000  # characters of the text of a search
MOST_URL_BYTES = 48 * 1024  # a label of 10,000 characters, percent-encoded, fits
MOST_QUERIES = 64  # of a batch
MOST_PATHS_IN_ALL = 20_000  # of a batch: queries times answers times paths
MOST_HOPS = 4  # of a path between two entities
MOST_RULES = 100  # of a relation
MOST_JOBS = 8  # that are kept, ended ones too
MOST_RELATIONS = 64  # named by a job
MOST_PROPOSED = 1_000_000  # facts of a job
MOST_OF_JOB = 64  # characters of the id of a job
OTHER_FILES = 64  # that a server has open beside its connections
MOST_HEADER_BYTES = 80 * 1024  # the request line and all headers together


@dataclass(frozen=True)
class Limits:
    """Limits that are options of the server: seconds per request, queries that may wait for the engine, and connections."""

    seconds: float = 30.0
    waiting: int = 256
    connections: int = 1000
    connections_per_address: int = 250
    header_seconds: float = 10.0


def most_connections(limits: Limits) -> int:
    """The most connections at a time: the limit, or as many as the process may have files open, less those for other uses."""
    try:
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except ImportError:  # Windows
        return limits.connections
    return limits.connections if files == resource.RLIM_INFINITY else max(min(limits.connections, files - OTHER_FILES), 1)
