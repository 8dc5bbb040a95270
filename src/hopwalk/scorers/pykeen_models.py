"""PyKEEN's models by name: which there are, the options they take, and how they are built."""

from __future__ import annotations

import inspect
import logging
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from hopwalk.config.settings import ScorerSettings
from hopwalk.data.triples import Triples
from hopwalk.errors import MissingPackageError, SettingsError, UnknownNameError, did_you_mean
from hopwalk.utils.quiet import quiet

WITH_INVERSES = "create_inverse_triples"  # a model option that is ours: whether head questions have embeddings of their own
WITHOUT_INVERSES = {"rgcn"}  # makes its own inverse edges, and refuses others
UNFIT = {
    "fixed": "it is a stand-in that learns nothing",
    "cooccurrencefiltered": "it is a filter round another model",
    "complexliteral": "it needs numbers that describe the entities",
    "distmultliteral": "it needs numbers that describe the entities",
    "distmultliteralgated": "it needs numbers that describe the entities",
    "inductivenodepiece": "it needs a second graph to answer on",
    "inductivenodepiecegnn": "it needs a second graph to answer on",
}
NOT_OPTIONS = {"self", "triples_factory", "loss", "loss_kwargs", "predict_with_sigmoid", "random_seed", "embedding_dim"}


def installed_pykeen() -> Any:
    """PyKEEN, or an error that says how to install it."""
    try:
        import pykeen.models
        import pykeen.triples
        import pykeen.utils
        import pykeen.version
    except ImportError:
        raise MissingPackageError("pykeen", "A scorer of PyKEEN's") from None
    return pykeen


def build_model(num_entities: int, num_relations: int, settings: ScorerSettings, facts: Triples | None) -> Any:
    """The model that the settings name, with fresh parameters drawn by their seed."""
    name, kind = _model_named(settings.model)
    options = _checked_options(kind, settings.model_options)
    with_inverses = options.pop(WITH_INVERSES, name not in WITHOUT_INVERSES)
    if "embedding_dim" in inspect.signature(kind).parameters:
        options["embedding_dim"] = settings.dimension
    with torch.random.fork_rng(devices=[]), quiet(logging.getLogger("pykeen")):  # it advises how models were used in their papers
        torch.default_generator.manual_seed(settings.seed)
        return _make(kind, _counts(num_entities, num_relations, with_inverses, facts), options)


def _model_named(model: str) -> tuple[str, Any]:
    """PyKEEN's normalized name and the class of a model, by the name after `pykeen:`."""
    resolver = installed_pykeen().models.model_resolver
    wanted = model.partition(":")[2].strip()
    name = resolver.normalize(wanted)
    if name in UNFIT:
        raise SettingsError(f"PyKEEN's {wanted} cannot be a scorer: {UNFIT[name]}", remedy="Choose another model.")
    try:
        return name, resolver.lookup_dict[name]
    except KeyError:
        known = sorted(known for known in resolver.lookup_dict if known not in UNFIT)
        listed = ", ".join(resolver.lookup_dict[key].__name__ for key in known)
        remedy = did_you_mean(name, known) or f"PyKEEN's models are: {listed}."
        raise UnknownNameError(f"PyKEEN has no model {wanted!r}", remedy=remedy) from None


def _checked_options(kind: Any, text: str) -> dict[str, Any]:
    """The keyword arguments for a model that `scorer.model_options` gives.

    Values are numbers, names, and lists and tables of numbers, never names within a table: settings come with run folders from
    elsewhere, and some of PyKEEN's parts take names of files to unpickle.
    """
    try:
        options: dict[str, Any] = tomllib.loads(f"options = {{{text}}}")["options"]
    except (ValueError, KeyError, RecursionError) as error:
        remedy = "Write it as in TOML, for example: scoring_fct_norm = 2, entity_initializer = 'xavier_uniform'."
        raise SettingsError(f"scorer.model_options = {text!r} cannot be read ({error})", remedy=remedy) from None
    parameters = inspect.signature(kind.__init__).parameters.values()
    known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD and one.name not in NOT_OPTIONS] + [WITH_INVERSES]
    for name, value in options.items():
        problem, remedy = f"PyKEEN's {kind.__name__} has no argument {name!r}", did_you_mean(name, known)
        if name == "embedding_dim":
            raise SettingsError(problem + " here", remedy="Set scorer.dimension.")
        if name not in known:
            raise SettingsError(problem, remedy=remedy or f"It has: {', '.join(known)}.")
        if not (isinstance(value, bool) if name == WITH_INVERSES else isinstance(value, str) or _is_plain(value)):
            problem = f"the argument {name!r} of PyKEEN's {kind.__name__} cannot be set to {value!r}"
            raise SettingsError(problem, remedy="It can be a number, true, false, a name, or a list or table of numbers.")
    return options


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | dict):
        return all(_is_plain(inner) for inner in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float)


def _counts(num_entities: int, num_relations: int, with_inverses: bool, facts: Triples | None) -> Any:
    """What PyKEEN's models are told about the data: how much of it there is and, if given, the facts."""
    triples = installed_pykeen().triples
    if facts is None:
        return triples.KGInfo(num_entities, num_relations, with_inverses)
    ids = torch.from_numpy(facts.array().astype(np.int64))
    return triples.CoreTriplesFactory(ids, num_entities, num_relations, create_inverse_triples=with_inverses)


def _make(kind: Any, counts: Any, options: Mapping[str, Any]) -> Any:
    """A model of PyKEEN's with these keyword arguments."""
    name, given = kind.__name__, ", ".join(f"{key} = {value!r}" for key, value in options.items()) or "its defaults"
    try:
        model = kind(triples_factory=counts, random_seed=installed_pykeen().utils.NoRandomSeedNecessary, **options)
    except AttributeError as error:
        if "mapped_triples" not in str(error):
            raise SettingsError(f"PyKEEN's {name} cannot be built with {given} ({error})") from None
        problem = f"PyKEEN's {name} passes messages over the facts, which are not known where it is built"
        raise SettingsError(problem, remedy="Choose another model.") from None
    except Exception as error:  # PyKEEN and PyTorch complain in many ways
        problem = f"PyKEEN's {name} cannot be built with {given} ({type(error).__name__}: {error})"
        raise SettingsError(problem, remedy="Set scorer.dimension and scorer.model_options to what it takes.") from None
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise SettingsError(f"PyKEEN's {name} has nothing to learn", remedy="Choose another model.")
    return model
