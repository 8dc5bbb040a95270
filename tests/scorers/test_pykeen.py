"""PyKEEN's models as scorers: against PyKEEN's own predictions, memory, run folders, and errors."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hopwalk.config.settings import ScorerSettings
from hopwalk.errors import MissingPackageError, SettingsError, UnknownNameError
from hopwalk.learning import training
from hopwalk.learning.run import Run
from hopwalk.learning.training import arrays_of, check_arrays, load_arrays
from hopwalk.scorers.losses import binary_loss, softmax_loss
from hopwalk.scorers.models import build_scorer
from hopwalk.scorers.pykeen import CountedBytes, PykeenScorer, ScoringCost, loss_of_scores
from hopwalk.scorers.pykeen_models import UNFIT
from hopwalk.scorers.queries import Batch
from hopwalk.scorers.runs import load_scorer, train_into
from hopwalk.utils.arrays import ArrayFile, save_arrays
from tests.support.helpers import dataset_of
from tests.support.pykeen_models import (
    DEV,
    FEW_FILTERS,
    ON_GRAPH,
    ONLY_WITH_INVERSES,
    PLAIN,
    SCHOOL,
    E,
    R,
    all_queries,
    learn,
    run_settings,
    scorer_of,
    scores_of,
    settings_of,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # PyKEEN and what it imports warn of their own affairs
every_model = pytest.mark.parametrize("name", [*PLAIN, *ON_GRAPH])


# Scores and training


def test_every_model_of_pykeen_is_tried_or_refused():
    from pykeen.models import model_resolver

    tried = {name.lower() for name in [*PLAIN, *ON_GRAPH]}
    assert tried | set(UNFIT) == set(model_resolver.lookup_dict)


def contract(scorer: PykeenScorer) -> None:
    """All tails, single triples, and PyKEEN's own predictions agree, in both directions."""
    heads, relations = all_queries()
    scores = scores_of(scorer)
    assert scores.shape == (len(heads), E)
    each = (heads.repeat_interleave(E), relations.repeat_interleave(E), torch.arange(E).repeat(len(heads)))
    close: Any = {"rtol": 1e-4, "atol": 1e-5 * float(scores.abs().max())}
    with torch.inference_mode():
        torch.testing.assert_close(scorer.score_triples(*each).view_as(scores), scores, **close)
        is_inverse = relations >= R
        theirs = torch.empty_like(scores)
        theirs[~is_inverse] = scorer.model.predict_t(torch.stack([heads, relations], dim=1)[~is_inverse])
        theirs[is_inverse] = scorer.model.predict_h(torch.stack([relations - R, heads], dim=1)[is_inverse])
    torch.testing.assert_close(scores, theirs, **close)
    assert scorer.score_all_tails(heads[:0], relations[:0]).shape == (0, E)
    assert scorer.score_triples(heads[:0], relations[:0], heads[:0]).shape == (0,)


@every_model
def test_all_tails_triples_and_pykeens_predictions_agree(name):
    scorer = scorer_of(name)
    assert scorer.model.use_inverse_triples == (name != "RGCN")
    learn(scorer)  # so that nothing is zero by initialisation
    contract(scorer)


@pytest.mark.parametrize("name", [name for name in [*PLAIN, *ON_GRAPH] if name not in ONLY_WITH_INVERSES])
def test_the_same_for_models_without_inverse_relations(name):
    options = ", ".join(filter(None, [FEW_FILTERS.get(name), "create_inverse_triples = false"]))
    scorer = scorer_of(name, model_options=options)
    assert not scorer.model.use_inverse_triples
    learn(scorer)
    contract(scorer)


@every_model
def test_learning_lowers_the_loss(name):
    losses = learn(scorer_of(name, learning_rate=0.03), steps=20)
    assert min(losses[-3:]) < 0.98 * losses[0]


def test_constraints_hold_after_learning():
    scorer = scorer_of("TransE")
    learn(scorer, steps=2)
    torch.testing.assert_close(scorer.model.entity_representations[0]().norm(dim=1), torch.ones(E))


@every_model
def test_the_same_seed_gives_the_same_result_and_the_global_generator_is_unchanged(name):
    scorers = []
    for number, seed in enumerate([5, 5, 6]):
        torch.manual_seed(number)
        before = torch.get_rng_state()
        scorers.append(scorer_of(name, seed=seed))
        learn(scorers[-1], steps=2)
        assert torch.equal(torch.get_rng_state(), before)
    first, second, other = scorers
    torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)
    assert not torch.equal(scores_of(first), scores_of(other))


@every_model
def test_weights_go_through_a_file(name, tmp_path: Path):
    scorer, other = scorer_of(name), scorer_of(name, seed=1)
    learn(scorer)
    expected = scores_of(scorer)
    assert not torch.equal(scores_of(other), expected)
    save_arrays(tmp_path / "weights.safetensors", arrays_of(scorer), {"kind": "weights"})
    file = ArrayFile(tmp_path / "weights.safetensors", kind="weights")
    arrays = {key: file.array(key) for key in file.names}
    check_arrays(other, arrays, file)
    load_arrays(other, arrays)
    with torch.inference_mode():
        assert torch.equal(other.score_all_tails(*all_queries()), expected)


def test_messages_passed_in_training_are_forgotten_after_it():
    scorer = scorer_of("RGCN")  # leaves out edges in training
    expected = scores_of(scorer)
    with torch.random.fork_rng(), torch.no_grad():
        assert not torch.equal(scorer.train().score_all_tails(*all_queries()), expected)
    assert torch.equal(scores_of(scorer), expected)


# PyTorch warns of sparse tensors once in a process, so this takes one of its own.
WITHOUT_WARNINGS = """
import warnings
from tests.support.pykeen_models import learn, scores_of, scorer_of
warnings.simplefilter("error")
scorer = scorer_of("RGCN")
scores_of(scorer)
learn(scorer)
"""


def test_sparse_messages_come_without_warnings():
    ran = subprocess.run([sys.executable, "-c", WITHOUT_WARNINGS], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


# Memory


@dataclass(frozen=True)
class Tiles(ScoringCost):
    """A cost with a given number of queries and candidates at once."""

    of_query: float = 1.0
    of_candidate: float = 1.0
    of_pair: float = 1.0
    sizes: tuple[int, int] = (1, 1)

    def at_once(self, num_candidates: int, most_bytes: int = 0) -> tuple[int, int]:
        return self.sizes[0], min(self.sizes[1], num_candidates)


@every_model
def test_slices_have_the_same_scores(name):
    scorer = scorer_of(name)
    expected = scores_of(scorer, most=8)
    for tile in [(3, E), (5, 4)]:
        scorer.cost = Tiles(sizes=tile)
        torch.testing.assert_close(scores_of(scorer, most=8), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("candidates", [0, 4])
@pytest.mark.parametrize("loss", ["softmax", "binary"])
@pytest.mark.parametrize("name", ["DistMult", "TransH", "RESCAL", "NTN"])  # with penalties of three kinds, and without
def test_slices_learn_the_same(name, loss, candidates):
    """Gradients do not depend on how a batch is divided: by queries, or by queries and candidates."""

    def learnt(cost: ScoringCost | None = None) -> tuple[float, dict[str, Tensor]]:
        scorer = scorer_of(name, loss=loss, num_sampled_tails=candidates, optimizer="adagrad")
        scorer.cost = cost or scorer.cost
        return learn(scorer)[0], scorer.state_dict()

    loss_at_once, at_once = learnt()
    for tile in [(25, E), (40, 4)]:
        loss_in_slices, in_slices = learnt(Tiles(sizes=tile))
        assert loss_in_slices == pytest.approx(loss_at_once, rel=1e-5)
        torch.testing.assert_close(in_slices, at_once, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["CrossE", "RGCN"])
def test_dropout_is_the_same_in_both_passes_over_the_candidates(name):
    """Scores without and with gradients must have the same dropout: only then do the gradients descend."""
    scorer = scorer_of(name, learning_rate=0.03)
    scorer.cost = Tiles(sizes=(100, 4))
    losses = learn(scorer, steps=20)
    assert min(losses[-3:]) < 0.97 * losses[0]


@every_model
def test_no_slice_takes_more_memory_than_its_bound(name):
    scorer = scorer_of(name)
    bound = 2**16
    queries, candidates = scorer.cost.at_once(200, most_bytes=bound)
    for relation_id in (0, R):
        made = []
        for count in (0, 1):  # with one query and one candidate it is the constant part
            heads, rows = torch.arange(count * (queries - 1) + 1) % E, torch.arange(count * (candidates - 1) + 1) % E
            scorer.forget_messages()
            with torch.no_grad(), CountedBytes() as counted:
                scorer.score_candidates(heads, torch.full_like(heads, relation_id), rows)
            made.append(counted.total)
        assert made[1] - made[0] <= 1.1 * bound


def test_a_query_alone_in_its_batch():
    scorer = scorer_of("ConvE")
    batch = Batch(torch.tensor([0]), torch.tensor([1]), torch.tensor([0]), torch.tensor([2]))
    assert np.isfinite(learn(scorer, batch=batch)[0])
    assert all(module.training for module in scorer.modules())


# Losses


@pytest.mark.parametrize("loss", ["softmax", "binary"])
@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 1, 1, 1, 1, 3, 3])])
def test_losses_are_those_of_our_own_models(loss, weights):
    generator = torch.Generator().manual_seed(0)
    vectors, table, bias = (torch.randn(*shape, generator=generator).double() for shape in [(3, 4), (7, 4), (7,)])
    weights = None if weights is None else weights.double()
    batch = Batch(torch.arange(3), torch.arange(3), torch.tensor([0, 0, 1, 2]), torch.tensor([1, 4, 0, 3]))
    settings = settings_of("DistMult", loss=loss, label_smoothing=0.2)
    leaves = [value.requires_grad_() for value in (vectors, table, bias)]
    plain = loss_of_scores(vectors @ table.T + bias, batch, settings, weights)
    arguments = (vectors, table, bias, batch.queries, batch.answers, weights)
    fused = softmax_loss(*arguments) if loss == "softmax" else binary_loss(*arguments, settings.label_smoothing)
    torch.testing.assert_close(plain, fused)
    for ours, theirs in zip(torch.autograd.grad(plain, leaves), torch.autograd.grad(fused, leaves), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("loss", ["softmax", "binary"])
def test_distmult_of_both_sides_learns_the_same(loss):
    """One step of PyKEEN's DistMult, without its penalty, moves relations as one of ours does from the same embeddings."""
    options = "regularizer = 'no'"
    theirs = scorer_of("DistMult", model_options=options, loss=loss, optimizer="adagrad")
    ours: Any = build_scorer(E, R, theirs.settings.model_copy(update={"model": "distmult", "n3": 0.0, "model_options": ""}))
    of_pykeen = torch.cat([torch.arange(0, 2 * R, 2), torch.arange(1, 2 * R, 2)])  # PyKEEN's inverse of 2r is 2r + 1
    entities, relations = (
        getattr(theirs.model, f"{what}_representations")[0]._embeddings.weight for what in ("entity", "relation")
    )
    with torch.no_grad():
        ours.entities.copy_(entities)
        ours.relations.copy_(relations[of_pykeen])
    assert learn(theirs) == pytest.approx(learn(ours))
    torch.testing.assert_close(relations[of_pykeen], ours.relations)


# Run folders


@pytest.mark.parametrize("name", ["PyKEEN:transe", "pykeen:TuckER"])
def test_trained_into_a_run_folder_stopped_and_resumed(name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The second has dropout and batch normalisation, and is stopped after two epochs."""
    dataset, settings = dataset_of(SCHOOL, DEV), run_settings(name)
    train_into(tmp_path / "whole", dataset, settings, resume=False)
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0)

    class Stop:
        def on_batch(self, epoch: int, *_: Any) -> None:
            if epoch == 3:
                raise KeyboardInterrupt

        def on_evaluation(self, record: Any) -> None:
            pass

    train_into(tmp_path / "stopped", dataset, settings, resume=False, callbacks=[Stop()])
    assert Run.open(tmp_path / "stopped").about["status"] == "interrupted"
    train_into(tmp_path / "stopped", dataset, settings, resume=True)
    whole, stopped = (load_scorer(tmp_path / name) for name in ("whole", "stopped"))
    torch.testing.assert_close(whole.state_dict(), stopped.state_dict(), rtol=0, atol=0)
    ids = torch.arange(len(dataset.entities))
    probabilities = whole.probability_of_all_tails(ids, torch.ones_like(ids))
    assert ((probabilities > 0) & (probabilities < 1)).all()


# Errors


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("pykeen:TransX", UnknownNameError, "PyKEEN has no model 'TransX'. Did you mean 'trans"),
        ("pykeen:", UnknownNameError, "PyKEEN has no model ''. PyKEEN's models are: AutoSF, BoxE"),
        ("pykeen:Fixed", SettingsError, "PyKEEN's Fixed cannot be used as a scorer: it is a placeholder"),
        ("pykeen:ComplExLiteral", SettingsError, "numbers that describe the entities"),
        ("pykeen:RGCN", SettingsError, "PyKEEN's RGCN passes messages over the facts"),
    ],
)
def test_wrong_names(name, error, message):
    with pytest.raises(error) as raised:
        build_scorer(E, R, ScorerSettings(model=name))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("scoring_norm = 2", "PyKEEN's TransE has no argument 'scoring_norm'. Did you mean 'scoring_fct_norm'"),
        ("random_seed = 2", "no argument 'random_seed'. Its arguments are: scoring_fct_norm, power_norm, entity_initializer"),
        ("embedding_dim = 2", "Set scorer.dimension"),
        ("scoring_fct_norm : 2", "scorer.model_options = 'scoring_fct_norm : 2' is not valid"),
        ("scoring_fct_norm = " + "[" * 9900, "is not valid: "),
        ("create_inverse_triples = 'no'", "create_inverse_triples = 'no' is not valid for PyKEEN's TransE"),
        ("entity_initializer = 'nothing'", "TransE cannot be built with entity_initializer = 'nothing'"),
        (
            "regularizer_kwargs = {weight = 'file.pkl'}",
            "regularizer_kwargs = {'weight': 'file.pkl'} is not valid for PyKEEN's TransE",
        ),
        ("regularizer_kwargs = [1, {path = 'file.pkl'}]", "a list or table of numbers"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(SettingsError) as raised:
        build_scorer(E, R, settings_of("TransE", model_options=options))
    assert message in str(raised.value)


def test_options_reach_the_model():
    options = "scoring_fct_norm = 2, regularizer = 'lp', regularizer_kwargs = {weight = 0.5, p = 3.0}"
    model: Any = scorer_of("TransE", model_options=options).model
    assert (model.interaction.p, float(model.entity_representations[0].regularizer.weight)) == (2, 0.5)
    assert scorer_of("TransR", model_options="relation_dim = 5").model.relation_representations[0].shape == (5,)


def test_without_pykeen(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pykeen"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pykeen", None)
    with pytest.raises(MissingPackageError, match=r"pip install pykeen"):
        build_scorer(E, R, ScorerSettings(model="pykeen:TransE"))
