"""Limits of what agents may send and what they get back: a model reads every word of it."""

from __future__ import annotations

MOST_TYPED = 2_000  # characters of a name that is sent
MOST_SHOWN = 160  # characters of a label that is sent back
MOST_ANSWERS = 25  # of a question
MOST_PATHS = 5  # of an answer
MOST_LISTED = 50  # entities, relations or facts of a list
MOST_HOPS = 4  # of a path between two entities
MOST_OFFSET = 100_000_000  # of a page of facts
MOST_ADDED = 100  # facts of one call
MOST_IN_SET = 1_000  # facts that one client adds
MOST_NEW_CHARACTERS = 300  # of the label of an entity that is added
MOST_QUERIES = 256  # behind proposed facts
MOST_SETS = 32  # sets of added facts that are kept
MOST_FACTS_IN_SETS = 50_000_000  # facts of all graphs with added facts together
SECONDS_KEPT = 3_600.0  # a set of added facts that nobody uses
SECONDS = 60.0  # of a call
MOST_WAITING = 32  # calls
