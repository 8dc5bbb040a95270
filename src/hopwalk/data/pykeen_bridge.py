"""Conversion of data sets from and to PyKEEN, an optional package."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from hopwalk.data.dataset import Dataset, assemble
from hopwalk.data.reading import LabelledFacts
from hopwalk.data.triples import Triples
from hopwalk.errors import DownloadError, MissingPackageError, UnknownNameError, did_you_mean


def from_pykeen(source: Any, *, fold_inverses: bool = True) -> Dataset:
    """A `Dataset` from the name of a PyKEEN data set, a PyKEEN `Dataset`, or a `CoreTriplesFactory`."""
    pykeen = _pykeen()
    name = f"pykeen:{source.lower()}" if isinstance(source, str) else "pykeen"
    if isinstance(source, str):
        source = _by_name(pykeen, source)
    if isinstance(source, pykeen.triples.CoreTriplesFactory):
        parts = {"train": source}
    else:
        parts = {"train": source.training, "valid": source.validation, "test": source.testing}
    splits = {split: _labelled(factory) for split, factory in parts.items() if factory is not None}
    return assemble(name, LabelledFacts(splits), fold_inverses=fold_inverses)


def _by_name(pykeen: Any, name: str) -> Any:
    try:
        pykeen.datasets.dataset_resolver.lookup(name)
    except KeyError:
        remedy = did_you_mean(name, pykeen.datasets.dataset_resolver.options)
        raise UnknownNameError(f"PyKEEN has no data set {name!r}", remedy=remedy) from None
    try:
        return pykeen.datasets.get_dataset(dataset=name)
    except Exception as error:  # PyKEEN has many ways to download, each with its own errors
        problem = f"PyKEEN could not load its data set {name!r} ({type(error).__name__}: {error})"
        raise DownloadError(problem, remedy="Check the connection and try again.") from None


def to_pykeen(dataset: Dataset) -> Any:
    """A PyKEEN `Dataset` with the same ids; its training part is the graph."""
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
    else:  # a CoreTriplesFactory has ids only
        entities = {id_: str(id_) for id_ in range(factory.num_entities)}
        relations = {id_: str(id_) for id_ in range(factory.num_relations)}
    columns = {"head": (ids[:, 0], entities), "relation": (ids[:, 1], relations), "tail": (ids[:, 2], entities)}
    return pl.DataFrame({role: [labels[id_] for id_ in column.tolist()] for role, (column, labels) in columns.items()})


def _pykeen() -> Any:
    try:
        import pykeen.datasets
        import pykeen.triples
    except ImportError:
        raise MissingPackageError("pykeen", "Using PyKEEN data sets") from None
    return pykeen
