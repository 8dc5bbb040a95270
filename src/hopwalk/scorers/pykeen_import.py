"""Models that PyKEEN trained, as scorers of ours."""

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
from hopwalk.learning.ranking import filtered_answers, metrics, rank_answers, split_queries
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
    """A scorer of the data set round a model that PyKEEN trained, which is not copied; ids are matched by label.

    It takes the live model, for example `pipeline(…).model`: PyKEEN's own `trained_model.pkl` is a pickle, whose loading runs
    whatever code is in it, so hopwalk does not read it. The labels are those of PyKEEN's training factory. The scores are not
    calibrated; `import_model_into` does that.
    """
    models = installed_pykeen().models
    if not isinstance(model, models.ERModel) or isinstance(model, models.InductiveERModel):
        problem = f"{type(model).__name__} is no PyKEEN model of entities and relations (ERModel)"
        raise SettingsError(problem, remedy="Give the live model, for example pipeline(…).model.")
    if any(value.device.type != "cpu" for value in model.state_dict().values()):
        raise SettingsError("the PyKEEN model is not on the processor", remedy="Give model.cpu().")
    settings = settings or ScorerSettings()
    scorer = PykeenScorer(model, settings.model_copy(update={"model": f"pykeen:{type(model).__name__}"}))
    scorer.entity_rows.copy_(_matched("entities", dataset.entities, entity_to_id, scorer.num_entities))
    scorer.relation_rows.copy_(_matched("relations", dataset.relations, relation_to_id, scorer.relation_ids.num_relations))
    return scorer.eval()


def import_model_into(path: str | Path, model: Any, factory: Any, dataset: Dataset, settings: Settings | None = None) -> Run:
    """A run folder with a model that PyKEEN trained, calibrated on dev; `factory` is the one it was trained on.

    `scorer.dimension` and `scorer.model_options` must be the arguments the model was made with, so that it can be built again;
    whether it then has the same scores is checked.
    """
    path, settings = Path(path), settings or Settings()
    refuse_used_folder(path)
    entity_to_id, relation_to_id = _labels_of(factory)
    adopted = import_model(model, dataset, entity_to_id=entity_to_id, relation_to_id=relation_to_id, settings=settings.scorer)
    scorer, settings = _built_again(adopted, settings, dataset.facts)
    about = {"kind": SCORER, "status": "begun", "adopted_from": f"PyKEEN {installed_pykeen().version.get_version()}"}
    run = Run.create(path, dataset, settings, about)
    run.save_weights(arrays_of(scorer), settings.scorer.model)
    outcome = {"status": "finished", "epochs": 0, "best_epoch": 0, "seconds": 0.0, "valid_mrr": _dev_mrr(scorer, dataset)}
    describe(run, scorer, dataset, outcome)
    return run


def _built_again(adopted: PykeenScorer, settings: Settings, facts: Triples) -> tuple[PykeenScorer, Settings]:
    """The adopted scorer as it can be built from settings and weights, and these settings; an error if they do not make it.

    The facts are for models that pass messages over them. They have our ids and PyKEEN's model has its own: as its weights hold
    the edges too, those of the facts only have to be as many.
    """
    options = settings.scorer.model_options
    if WITH_INVERSES not in options:
        said = f"{WITH_INVERSES} = {str(adopted.model.use_inverse_triples).lower()}"
        options = f"{options}, {said}" if options.strip() else said
    # With the softmax loss, scores are not taken for log-odds, and get calibrated.
    values = {"scorer.model": adopted.settings.model, "scorer.model_options": options, "scorer.loss": "softmax"}
    settings = changed(settings, values)
    scorer = PykeenScorer.build(adopted.num_entities, adopted.relation_ids.num_relations, settings.scorer, facts)
    own, given = scorer.state_dict(), adopted.state_dict()
    for name in sorted(own.keys() | given.keys()):
        ours, theirs = (tuple(state[name].shape) if name in state else "nothing" for state in (own, given))
        if ours != theirs:
            raise _does_not_fit(scorer.settings, f"has {ours} as {name}, and the model given has {theirs}")
        own[name].copy_(given[name])
    heads, relations = (torch.arange(64) % count for count in (scorer.num_entities, scorer.relation_ids.num_directed))
    with torch.inference_mode():
        scores, wanted = (one.eval().score_all_tails(heads, relations) for one in (scorer, adopted))
    if not torch.allclose(scores, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max())):
        raise _does_not_fit(scorer.settings, "has other scores than the model given, with the same weights")
    return scorer, settings


def _does_not_fit(settings: ScorerSettings, problem: str) -> SettingsError:
    given = f"scorer.dimension = {settings.dimension} and scorer.model_options = {settings.model_options!r}"
    remedy = "Set both to the arguments that the model was made with in PyKEEN. RGCN and its like also need the same facts."
    return SettingsError(f"{settings.model} built with {given} {problem}", remedy=remedy)


def _labels_of(factory: Any) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """The labels of a triples factory; one that knows ids only has those as labels, as for `from_pykeen`."""
    if hasattr(factory, "entity_to_id"):
        return factory.entity_to_id, factory.relation_to_id
    entities, relations = range(factory.num_entities), range(factory.real_num_relations)
    return {str(id_): id_ for id_ in entities}, {str(id_): id_ for id_ in relations}


def _matched(what: str, vocabulary: Vocabulary, label_to_id: Mapping[str, int], count: int) -> Tensor:
    """PyKEEN's id of every label of the vocabulary; an error unless the labels are the same."""
    labels = list(vocabulary)
    missing, unknown = [label for label in labels if label not in label_to_id], set(label_to_id).difference(labels)
    remedy = "Train it in PyKEEN on hopwalk.to_pykeen(dataset).training, or take the data set from PyKEEN by hopwalk.from_pykeen."
    if missing:
        raise DataError(
            f"the PyKEEN model does not know {_some(missing)} of the data set's {len(labels):,} {what}", remedy=remedy
        )
    if unknown:
        raise DataError(f"the PyKEEN model knows {what} that the data set has not: {_some(sorted(unknown))}", remedy=remedy)
    ids = torch.tensor([label_to_id[label] for label in labels], dtype=torch.int64)
    if len(labels) != count or not torch.equal(ids.sort().values, torch.arange(count)):
        problem = f"the PyKEEN model has {count:,} {what}, which are not those of the {len(labels):,} labels given with it"
        raise DataError(problem, remedy="Give the labels of the triples factory it was trained on.")
    return ids


def _some(labels: list[str], most: int = 3) -> str:
    listed = ", ".join(repr(label) for label in labels[:most])
    return listed if len(labels) <= most else f"{listed} and {len(labels) - most:,} more"


def _dev_mrr(scorer: PykeenScorer, dataset: Dataset) -> float | None:
    queries, known = split_queries(dataset, "valid"), filtered_answers(dataset, "valid")
    if not len(queries):
        return None
    return metrics(rank_answers(scorer.numpy_scores, queries, known, num_entities=scorer.num_entities)).mrr
