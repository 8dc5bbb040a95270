"""Import of models trained in PyKEEN: they have the same scores as there, or are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import hopwalk
from hopwalk.errors import DataError, RunError, SettingsError, UnknownNameError
from hopwalk.paper.recording import command_of
from hopwalk.scorers.pykeen_import import import_model, import_model_into
from hopwalk.scorers.runs import load_scorer
from tests.support.helpers import FAMILY, dataset_of
from tests.support.pykeen_models import DEV, SCHOOL, D, run_settings

pytestmark = pytest.mark.filterwarnings("ignore")  # PyKEEN and what it imports warn of their own affairs


def their_factory(dataset: hopwalk.Dataset, **options: Any) -> Any:
    """PyKEEN's factory of the facts, with ids in another order than ours."""
    from pykeen.triples import TriplesFactory

    def backwards(vocabulary: Any) -> dict[str, int]:
        return {label: id_ for id_, label in enumerate(reversed(list(vocabulary)))}

    triples = np.array(dataset.labels_of(dataset.facts), dtype=str)
    vocabularies: Any = {"entity_to_id": backwards(dataset.entities), "relation_to_id": backwards(dataset.relations)}
    return TriplesFactory.from_labeled_triples(triples, **vocabularies, **options)


def their_scores(model: Any, factory: Any, dataset: hopwalk.Dataset) -> Tensor:
    """The scores of PyKEEN for every query of ours, by label."""
    entities = [factory.entity_to_id[label] for label in dataset.entities]
    relations = [factory.relation_to_id[label] for label in dataset.relations]
    with torch.inference_mode():
        tails = [[model.predict_t(torch.tensor([[given, relation]])) for relation in relations] for given in entities]
        heads = [[model.predict_h(torch.tensor([[relation, given]])) for relation in relations] for given in entities]
    return torch.cat([scores for row in zip(tails, heads, strict=True) for part in row for scores in part])[:, entities]


def queries_about(dataset: hopwalk.Dataset) -> tuple[Tensor, Tensor]:
    pairs = torch.cartesian_prod(torch.arange(len(dataset.entities)), torch.arange(2 * len(dataset.relations)))
    return pairs[:, 0], pairs[:, 1]


def trained_by_pipeline(name: str, factory: Any, **arguments: Any) -> Any:
    from pykeen.pipeline import pipeline

    return pipeline(
        training=factory,
        testing=factory,
        model=name,
        model_kwargs=arguments,
        training_kwargs={"num_epochs": 5, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=0,
        device="cpu",
    ).model


def fresh(name: str, factory: Any, **arguments: Any) -> Any:
    from pykeen.models import model_resolver

    return model_resolver.make(name, arguments, triples_factory=factory, random_seed=0)


@pytest.mark.parametrize(
    ("made", "name", "arguments", "with_inverses"),
    [
        (trained_by_pipeline, "TransE", {"scoring_fct_norm": 2}, False),
        (fresh, "RotatE", {}, True),
        (fresh, "TransD", {"relation_dim": 3}, False),
        (fresh, "ConvE", {}, True),
        (trained_by_pipeline, "RGCN", {}, False),
        (fresh, "CompGCN", {}, True),
        (fresh, "NodePiece", {}, True),
    ],
)
def test_import_from_pykeen(made, name, arguments, with_inverses, tmp_path: Path):
    dataset = dataset_of(SCHOOL, DEV)
    factory = their_factory(dataset, create_inverse_triples=with_inverses)
    model = made(name, factory, embedding_dim=D, **arguments)
    expected = their_scores(model, factory, dataset)
    labels = {"entity_to_id": factory.entity_to_id, "relation_to_id": factory.relation_to_id}
    live = import_model(model, dataset, **labels)
    options = ", ".join(f"{key} = {value}" for key, value in arguments.items())
    run = import_model_into(
        tmp_path / "run", model, factory, dataset, run_settings("distmult", model_options=options, loss="binary")
    )
    loaded: Any = load_scorer(run.path)
    for scorer in (live, loaded):
        with torch.inference_mode():
            torch.testing.assert_close(scorer.score_all_tails(*queries_about(dataset)), expected, rtol=1e-4, atol=1e-4)
    assert loaded.settings.model == f"pykeen:{name}"
    assert loaded.calibration.slope != 1
    assert 0 < run.about["valid_mrr"] <= 1
    assert (run.path / "card.md").exists()
    assert "trained by PyKEEN" in command_of(run)
    with pytest.raises(RunError, match="there is already a run in this folder"):
        import_model_into(run.path, model, factory, dataset)


@pytest.fixture(scope="module")
def trained_there() -> tuple[Any, Any, hopwalk.Dataset]:
    from pykeen.models import TransE

    dataset = dataset_of(FAMILY)
    factory = their_factory(dataset)
    return TransE(triples_factory=factory, embedding_dim=D, scoring_fct_norm=2, random_seed=0), factory, dataset


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"dimension": 9},
            r"has model.entity_rep.* of shape \(5, 9\), but that of the given model is \(5, 8\)\. Set both to the arguments",
        ),
        ({"model_options": "scoring_fct_norm = 1"}, "has other scores than the given model"),
        ({"model_options": "create_inverse_triples = true"}, r"has model.relation_rep.* of shape \(8, 8\)"),
    ],
)
def test_settings_that_do_not_rebuild_the_model(values, message, trained_there, tmp_path: Path):
    model, factory, dataset = trained_there
    settings = run_settings("pykeen:TransE", **({"model_options": "scoring_fct_norm = 2"} | values))
    with pytest.raises(SettingsError, match=message):
        import_model_into(tmp_path / "run", model, factory, dataset, settings)
    assert not (tmp_path / "run").exists()


def test_a_graph_of_other_data(tmp_path: Path):
    dataset, more = dataset_of(SCHOOL, DEV), dataset_of([*SCHOOL, *DEV[:2]], DEV[2:])
    factory = their_factory(more)
    model = fresh("RGCN", factory, embedding_dim=D)
    with pytest.raises(SettingsError, match=r"of shape \(15,\), but that of the given model is \(17,\).*need the same facts"):
        import_model_into(tmp_path / "run", model, factory, dataset, run_settings("pykeen:RGCN"))
    assert not (tmp_path / "run").exists()


def test_other_labels(trained_there):
    model, factory, dataset = trained_there
    entities, relations = dict(factory.entity_to_id), dict(factory.relation_to_id)
    fewer = {label: id_ for label, id_ in entities.items() if label not in ("ann", "eve")}
    with pytest.raises(DataError, match="lacks 'ann', 'eve' of the data set's 5 entities"):
        import_model(model, dataset, entity_to_id=fewer, relation_to_id=relations)
    with pytest.raises(DataError, match="has relations that the data set lacks: 'hates'"):
        import_model(model, dataset, entity_to_id=entities, relation_to_id=relations | {"hates": 4})
    with pytest.raises(DataError, match="has 5 entities, but the ids of the 5 labels are others"):
        import_model(model, dataset, entity_to_id=entities | {"ann": 1}, relation_to_id=relations)


def test_factories_without_labels(trained_there, tmp_path: Path):
    from pykeen.models import DistMult
    from pykeen.triples import CoreTriplesFactory

    core = CoreTriplesFactory(torch.tensor([[0, 0, 11], [3, 1, 10], [5, 0, 2]]), 12, 2, create_inverse_triples=True)
    dataset = dataset_of([(str(head), str(relation), str(head + 1)) for head in range(11) for relation in range(2)])
    assert list(dataset.entities)[:3] == ["0", "1", "10"]
    model = DistMult(triples_factory=core, embedding_dim=D, random_seed=0)
    run = import_model_into(tmp_path / "run", model, core, dataset, run_settings("distmult"))
    (own,) = load_scorer(run.path).score_triples(*(torch.tensor([id_]) for id_ in (2, 1, 1)))  # the entity 10, the relation 1
    assert float(own) == pytest.approx(float(model.predict_hrt(torch.tensor([[10, 1, 1]]))))


def test_models_that_are_not_pykeens_own(trained_there, tmp_path: Path):
    from pykeen.models import DistMult, ERModel, FixedModel

    _, factory, dataset = trained_there
    labels: Any = {"entity_to_id": factory.entity_to_id, "relation_to_id": factory.relation_to_id}
    for model in (torch.nn.Linear(1, 1), FixedModel(triples_factory=factory)):
        with pytest.raises(SettingsError, match="is not a PyKEEN model of entities and relations"):
            import_model(model, dataset, **labels)
    shapes: Any = {"entity_representations_kwargs": {"shape": D}, "relation_representations_kwargs": {"shape": D}}
    homemade: Any = ERModel(triples_factory=factory, interaction="distmult", **shapes, random_seed=0)
    scores = import_model(homemade, dataset, **labels).score_all_tails(*queries_about(dataset))
    torch.testing.assert_close(scores, their_scores(homemade, factory, dataset))
    with pytest.raises(UnknownNameError, match="PyKEEN has no model 'ERModel'"):
        import_model_into(tmp_path / "run", homemade, factory, dataset)
    elsewhere = DistMult(triples_factory=factory, embedding_dim=D, random_seed=0).to("meta")
    with pytest.raises(SettingsError, match="is not on the CPU"):
        import_model(elsewhere, dataset, **labels)
