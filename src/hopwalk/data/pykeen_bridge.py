"""Data sets from PyKEEN and to PyKEEN, when it is installed (an optional extra)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from hopwalk.data.dataset import Dataset, assemble
from hopwalk.data.reading import LabelledFacts
from hopwalk.data.triples import Triples
from hopwalk.errors import MissingExtraError, UnknownNameError, did_you_mean


def from_pykeen(source: Any) -> Dataset:
    """A `Dataset` from the name of a PyKEEN data set, a PyKEEN `Dataset`, or a `CoreTriplesFactory`."""
    pykeen = _pykeen()
    if isinstance(source, str):
        known = pykeen.datasets.dataset_resolver.options
        try:
            source = pykeen.datasets.get_dataset(dataset=source)
        except KeyError:
            remedy = did_you_mean(source, known)
            raise UnknownNameError(f"PyKEEN has no data set {source!r}", remedy=remedy) from None
    if isinstance(source, pykeen.triples.CoreTriplesFactory):
        return assemble("pykeen", LabelledFacts({"train": _labelled(source)}))
    parts = {"train": source.training, "valid": source.validation, "test": source.testing}
    splits = {split: _labelled(factory) for split, factory in parts.items() if factory is not None}
    name = type(source).__name__.lower()
    return assemble(f"pykeen:{name}", LabelledFacts(splits))


def to_pykeen(dataset: Dataset) -> Any:
    """A PyKEEN `Dataset` with the same ids; its training part is the graph to walk."""
    pykeen = _pykeen()
    import torch

    entity_to_id = {label: id_ for id_, label in enumerate(dataset.entities)}
    relation_to_id = {label: id_ for id_, label in enumerate(dataset.relations)}

    def factory(triples: Triples) -> Any:
        return pykeen.triples.TriplesFactory(
            mapped_triples=torch.from_numpy(triples.array().astype(np.int64)),
            entity_to_id=entity_to_id,
            relation_to_id=relation_to_id,
        )

    return pykeen.datasets.EagerDataset(
        training=factory(dataset.facts),
        testing=factory(dataset.test),
        validation=factory(dataset.valid) if len(dataset.valid) else None,
        metadata={"name": dataset.name},
    )


def _labelled(factory: Any) -> pl.DataFrame:
    ids = factory.mapped_triples.numpy()
    if hasattr(factory, "entity_id_to_label"):
        entities, relations = factory.entity_id_to_label, factory.relation_id_to_label
    else:  # a CoreTriplesFactory knows ids only
        entities = {id_: str(id_) for id_ in range(factory.num_entities)}
        relations = {id_: str(id_) for id_ in range(factory.num_relations)}
    columns = {"head": (ids[:, 0], entities), "relation": (ids[:, 1], relations), "tail": (ids[:, 2], entities)}
    return pl.DataFrame({role: [labels[id_] for id_ in column.tolist()] for role, (column, labels) in columns.items()})


def _pykeen() -> Any:
    try:
        import pykeen.datasets
        import pykeen.triples
    except ImportError:
        raise MissingExtraError("pykeen", "pykeen", "Using PyKEEN data sets") from None
    return pykeen
