"""Construction of PyKEEN's models by name, with their options."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from hopwalk.config.settings import ScorerSettings
from hopwalk.data.triples import Triples
from hopwalk.errors import MissingPackageError, SettingsError, UnknownNameError, did_you_mean
from hopwalk.utils.files import parse_toml
from hopwalk.utils.quiet import quiet

WITH_INVERSES = "create_inverse_triples"  # our own model option: whether inverse relations have their own embeddings
WITHOUT_INVERSES = {"rgcn"}  # adds inverse edges itself, and rejects others
UNFIT = {
    "fixed": "it is a placeholder that learns nothing",
    "cooccurrencefiltered": "it is a filter around another model",
    "complexliteral": "it needs numbers that describe the entities",
    "distmultliteral": "it needs numbers that describe the entities",
    "distmultliteralgated": "it needs numbers that describe the entities",
    "inductivenodepiece": "it needs a second graph for inference",
    "inductivenodepiecegnn": "it needs a second graph for inference",
}
NOT_OPTIONS = {"self", "triples_factory", "loss", "loss_kwargs", "predict_with_sigmoid", "random_seed", "embedding_dim"}


def installed_pykeen() -> Any:
    """The package PyKEEN; a `MissingPackageError` if it is not installed."""
    try:
        import pykeen.models
        import pykeen.triples
        import pykeen.utils
        import pykeen.version
    except ImportError:
        raise MissingPackageError("pykeen", "A PyKEEN model") from None
    return pykeen


def build_model(num_entities: int, num_relations: int, settings: ScorerSettings, facts: Triples | None) -> Any:
    """The model of the settings, with initial parameters from their seed."""
    name, kind = _model_named(settings.model)
    options = _checked_options(kind, settings.model_options)
    with_inverses = options.pop(WITH_INVERSES, name not in WITHOUT_INVERSES)
    if "embedding_dim" in inspect.signature(kind).parameters:
        options["embedding_dim"] = settings.dimension
    with (
        torch.random.fork_rng(devices=[]),
        quiet(logging.getLogger("pykeen")),
    ):  # PyKEEN logs how models were used in their papers
        torch.default_generator.manual_seed(settings.seed)
        return _make(kind, _counts(num_entities, num_relations, with_inverses, facts), options)


def _model_named(model: str) -> tuple[str, Any]:
    """PyKEEN's normalized name and the class of a model, by the name after `pykeen:`."""
    resolver = installed_pykeen().models.model_resolver
    given = model.partition(":")[2].strip()
    name = resolver.normalize(given)
    if name in UNFIT:
        raise SettingsError(f"PyKEEN's {given} cannot be used as a scorer: {UNFIT[name]}", remedy="Choose another model.")
    try:
        return name, resolver.lookup_dict[name]
    except KeyError:
        known = sorted(known for known in resolver.lookup_dict if known not in UNFIT)
        listed = ", ".join(resolver.lookup_dict[key].__name__ for key in known)
        remedy = did_you_mean(name, known) or f"PyKEEN's models are: {listed}."
        raise UnknownNameError(f"PyKEEN has no model {given!r}", remedy=remedy) from None


def _checked_options(kind: Any, text: str) -> dict[str, Any]:
    """The keyword arguments of a model from `scorer.model_options`.

    Values are numbers, names, and lists and tables of numbers, but no names within a table: run folders with settings may come
    from others, and some parts of PyKEEN take the names of files to unpickle.
    """
    try:
        options: dict[str, Any] = parse_toml(f"options = {{{text}}}")["options"]
    except (ValueError, KeyError) as error:
        remedy = "Write it in TOML, for example: scoring_fct_norm = 2, entity_initializer = 'xavier_uniform'."
        raise SettingsError(f"scorer.model_options = {text!r} is not valid: {error}", remedy=remedy) from None
    parameters = inspect.signature(kind.__init__).parameters.values()
    known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD and one.name not in NOT_OPTIONS] + [WITH_INVERSES]
    for name, value in options.items():
        problem, remedy = f"PyKEEN's {kind.__name__} has no argument {name!r}", did_you_mean(name, known)
        if name == "embedding_dim":
            raise SettingsError(problem + " in scorer.model_options", remedy="Set scorer.dimension.")
        if name not in known:
            raise SettingsError(problem, remedy=remedy or f"Its arguments are: {', '.join(known)}.")
        if not (isinstance(value, bool) if name == WITH_INVERSES else isinstance(value, str) or _is_plain(value)):
            problem = f"{name} = {value!r} is not valid for PyKEEN's {kind.__name__}"
            raise SettingsError(problem, remedy="Set a number, true, false, a name, or a list or table of numbers.")
    return options


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | dict):
        return all(_is_plain(inner) for inner in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float)


def _counts(num_entities: int, num_relations: int, with_inverses: bool, facts: Triples | None) -> Any:
    """The data of PyKEEN's models: the numbers of entities and relations, and the facts if given."""
    triples = installed_pykeen().triples
    if facts is None:
        return triples.KGInfo(num_entities, num_relations, with_inverses)
    ids = torch.from_numpy(facts.array().astype(np.int64))
    return triples.CoreTriplesFactory(ids, num_entities, num_relations, create_inverse_triples=with_inverses)


def _make(kind: Any, counts: Any, options: Mapping[str, Any]) -> Any:
    """A PyKEEN model with these keyword arguments."""
    name, given = kind.__name__, ", ".join(f"{key} = {value!r}" for key, value in options.items()) or "its defaults"
    try:
        model = kind(triples_factory=counts, random_seed=installed_pykeen().utils.NoRandomSeedNecessary, **options)
    except AttributeError as error:
        if "mapped_triples" not in str(error):
            problem = f"PyKEEN's {name} cannot be built with {given} ({error})"
            raise SettingsError(problem, remedy="Set other scorer.model_options.") from None
        problem = f"PyKEEN's {name} passes messages over the facts, but was built without facts"
        raise SettingsError(problem, remedy="Choose another model.") from None
    except Exception as error:  # PyKEEN and PyTorch raise many kinds of errors
        problem = f"PyKEEN's {name} cannot be built with {given} ({type(error).__name__}: {error})"
        raise SettingsError(problem, remedy="Set scorer.dimension and scorer.model_options to valid arguments.") from None
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise SettingsError(f"PyKEEN's {name} has no parameters to train", remedy="Choose another model.")
    return model
