"""Import of models trained in PyKEEN as scorers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hopwalk.config.settings import ScorerSettings, Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import DataError, SettingsError
from hopwalk.learning.metrics import metrics
from hopwalk.learning.ranking import filtered_answers, rank_answers, split_queries
from hopwalk.learning.run import Run, refuse_used_folder
from hopwalk.learning.training import arrays_of
from hopwalk.scorers.pykeen import PykeenScorer
from hopwalk.scorers.pykeen_models import WITH_INVERSES, installed_pykeen
from hopwalk.scorers.runs import SCORER, describe


def import_model(
    model: Any,
    dataset: Dataset,
    *,
    entity_to_id: Mapping[str, int],
    relation_to_id: Mapping[str, int],
    settings: ScorerSettings | None = None,
) -> PykeenScorer:
    """A scorer of the data set that wraps a model trained in PyKEEN, without a copy; ids are matched by label.

    The model is the live one, for example `pipeline(…).model`: hopwalk does not read PyKEEN's `trained_model.pkl`, since loading
    a pickle can run any code. The labels are those of PyKEEN's training factory. The scores are not calibrated;
    `import_model_into` does that.
    """
    models = installed_pykeen().models
    if not isinstance(model, models.ERModel) or isinstance(model, models.InductiveERModel):
        problem = f"the model is not valid: {type(model).__name__} is not a PyKEEN model of entities and relations (ERModel)"
        raise SettingsError(problem, remedy="Give the live model, for example pipeline(…).model.")
    if any(value.device.type != "cpu" for value in model.state_dict().values()):
        raise SettingsError("the PyKEEN model is not on the CPU", remedy="Give model.cpu().")
    settings = settings or ScorerSettings()
    scorer = PykeenScorer(model, settings.model_copy(update={"model": f"pykeen:{type(model).__name__}"}))
    scorer.entity_rows.copy_(_matched("entities", dataset.entities, entity_to_id, scorer.num_entities))
    scorer.relation_rows.copy_(_matched("relations", dataset.relations, relation_to_id, scorer.relation_ids.num_relations))
    return scorer.eval()


def import_model_into(path: str | Path, model: Any, factory: Any, dataset: Dataset, settings: Settings | None = None) -> Run:
    """Import a model trained in PyKEEN into a run folder, calibrated on dev; `factory` is its training factory.

    `scorer.dimension` and `scorer.model_options` must be the arguments that the model was built with, so that it can be rebuilt.
    An error if the rebuilt model has other scores.
    """
    path, settings = Path(path), settings or Settings()
    refuse_used_folder(path)
    entity_to_id, relation_to_id = _labels_of(factory)
    imported = import_model(model, dataset, entity_to_id=entity_to_id, relation_to_id=relation_to_id, settings=settings.scorer)
    scorer, settings = _rebuilt(imported, settings, dataset.facts)
    about = {"kind": SCORER, "status": "begun", "adopted_from": f"PyKEEN {installed_pykeen().version.get_version()}"}
    run = Run.create(path, dataset, settings, about)
    run.save_weights(arrays_of(scorer), settings.scorer.model)
    outcome = {"status": "finished", "epochs": 0, "best_epoch": 0, "seconds": 0.0, "valid_mrr": _dev_mrr(scorer, dataset)}
    describe(run, scorer, dataset, outcome)
    return run


def _rebuilt(imported: PykeenScorer, settings: Settings, facts: Triples) -> tuple[PykeenScorer, Settings]:
    """The imported scorer rebuilt from settings and weights, and these settings; an error if its scores differ.

    The facts are for models that pass messages over them. They have our ids, PyKEEN's model has its own: as the edges are among
    its weights, only the number of facts must be the same.
    """
    options = settings.scorer.model_options
    if WITH_INVERSES not in options:
        option = f"{WITH_INVERSES} = {str(imported.model.use_inverse_triples).lower()}"
        options = f"{options}, {option}" if options.strip() else option
    # With the softmax loss, scores are not treated as log-odds, but calibrated.
    values = {"scorer.model": imported.settings.model, "scorer.model_options": options, "scorer.loss": "softmax"}
    settings = changed(settings, values)
    scorer = PykeenScorer.build(imported.num_entities, imported.relation_ids.num_relations, settings.scorer, facts)
    own, given = scorer.state_dict(), imported.state_dict()
    for name in sorted(own.keys() | given.keys()):
        ours, theirs = (tuple(state[name].shape) if name in state else "nothing" for state in (own, given))
        if ours != theirs:
            raise _does_not_fit(scorer.settings, f"has {name} of shape {ours}, but that of the given model is {theirs}")
        own[name].copy_(given[name])
    heads, relations = (torch.arange(64) % count for count in (scorer.num_entities, scorer.relation_ids.num_directed))
    with torch.inference_mode():
        scores, expected = (one.eval().score_all_tails(heads, relations) for one in (scorer, imported))
    if not torch.allclose(scores, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max())):
        raise _does_not_fit(scorer.settings, "has other scores than the given model, with the same weights")
    return scorer, settings


def _does_not_fit(settings: ScorerSettings, problem: str) -> SettingsError:
    given = f"scorer.dimension = {settings.dimension} and scorer.model_options = {settings.model_options!r}"
    remedy = (
        "Set both to the arguments of the model in PyKEEN. Models that pass messages, such as RGCN, also need the same facts."
    )
    return SettingsError(f"{settings.model} built with {given} {problem}", remedy=remedy)


def _labels_of(factory: Any) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """The labels of a triples factory; if it has only ids, these are the labels, as in `from_pykeen`."""
    if hasattr(factory, "entity_to_id"):
        return factory.entity_to_id, factory.relation_to_id
    entities, relations = range(factory.num_entities), range(factory.real_num_relations)
    return {str(id_): id_ for id_ in entities}, {str(id_): id_ for id_ in relations}


def _matched(kind: str, vocabulary: Vocabulary, label_to_id: Mapping[str, int], count: int) -> Tensor:
    """PyKEEN's id of every label of the vocabulary; an error unless the labels are the same."""
    labels = list(vocabulary)
    missing, unknown = [label for label in labels if label not in label_to_id], set(label_to_id).difference(labels)
    remedy = "Train it in PyKEEN on hopwalk.to_pykeen(dataset).training, or load the data set with hopwalk.from_pykeen."
    if missing:
        raise DataError(f"the PyKEEN model lacks {_some(missing)} of the data set's {len(labels):,} {kind}", remedy=remedy)
    if unknown:
        raise DataError(f"the PyKEEN model has {kind} that the data set lacks: {_some(sorted(unknown))}", remedy=remedy)
    ids = torch.tensor([label_to_id[label] for label in labels], dtype=torch.int64)
    if len(labels) != count or not torch.equal(ids.sort().values, torch.arange(count)):
        problem = f"the PyKEEN model has {count:,} {kind}, but the ids of the {len(labels):,} labels are others"
        raise DataError(problem, remedy="Give the labels of the triples factory that it was trained on.")
    return ids


def _some(labels: list[str], most: int = 3) -> str:
    listed = ", ".join(repr(label) for label in labels[:most])
    return listed if len(labels) <= most else f"{listed} and {len(labels) - most:,} more"


def _dev_mrr(scorer: PykeenScorer, dataset: Dataset) -> float | None:
    queries, known = split_queries(dataset, "valid"), filtered_answers(dataset, "valid")
    if not len(queries):
        return None
    return metrics(rank_answers(scorer.numpy_scores, queries, known, num_entities=scorer.num_entities)).mrr
