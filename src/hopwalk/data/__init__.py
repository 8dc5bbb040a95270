"""Triples in, a `Dataset` out: readers, catalog, splitting, statistics."""
