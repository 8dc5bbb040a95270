"""Triples in, a `Dataset` out: readers, catalog, splitting, statistics."""

from hopwalk.utils.memory import prepare_for_threads

prepare_for_threads()  # before polars is loaded, which ends the process if it cannot start its threads
