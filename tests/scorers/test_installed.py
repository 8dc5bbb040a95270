"""Scorers of other packages, chosen by name: found where they are installed, and nowhere else."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import hopwalk
from hopwalk import api
from hopwalk.errors import SettingsError, UnknownNameError
from hopwalk.learning.run import Run
from hopwalk.scorers.installed import installed_names, package_of
from tests.support.commands import command, mistake
from tests.support.schools import SCHOOL, settings_of

MODULE = """
import torch
from hopwalk.scorers.base import ProductScorer

print("imported bilinear_scorer")


class Bilinear(ProductScorer):
    def __init__(self, num_entities, num_relations, settings, generator):
        super().__init__(num_entities, num_relations, settings, generator)
        self.scale = torch.nn.Parameter(torch.ones(self.entities.shape[1]))

    def query_vectors(self, heads, relations, generator=None):
        return heads * relations * self.scale


def wrong_kind(*arguments):
    return torch.nn.Linear(2, 2)


def wrong_size(num_entities, num_relations, settings, generator):
    return Bilinear(num_entities + 1, num_relations, settings, generator)


def failing(*arguments):
    raise RuntimeError("no licence")
"""
POINTS = """[hopwalk.scorers]
bilinear = bilinear_scorer:Bilinear
complex = bilinear_scorer:Bilinear
wrong-kind = bilinear_scorer:wrong_kind
wrong-size = bilinear_scorer:wrong_size
failing = bilinear_scorer:failing
missing = no_such_module:Model
"""


def install(folder: Path, name: str = "bilinear-scorer", points: str = POINTS) -> Path:
    """A package with its metadata, as pip would have installed it into a folder."""
    information = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (information / "entry_points.txt").write_text(points)
    (folder / "bilinear_scorer.py").write_text(MODULE)
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package, installed for one test."""
    folder = install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("bilinear_scorer", None)


def test_a_scorer_of_another_package_is_trained_loaded_and_described(package: Path, tmp_path: Path):
    assert "bilinear" in installed_names() and package_of("BiLinear") == "bilinear-scorer 1.2"
    run = hopwalk.train_scorer(SCHOOL, settings_of(model="bilinear"), out=tmp_path / "run")
    scorer = hopwalk.load_scorer(run.path)
    assert type(scorer).__name__ == "Bilinear" and "scale" in dict(scorer.named_parameters())
    heads, relations, tails = (torch.tensor([0, 3]), torch.tensor([1, 2]), torch.tensor([4, 5]))
    all_scores, own = scorer.score_all_tails(heads, relations), scorer.score_triples(heads, relations, tails)
    assert torch.allclose(all_scores.gather(1, tails[:, None]).squeeze(1), own, atol=1e-6)
    assert Run.open(run.path).about["package"] == "bilinear-scorer 1.2"
    assert "| from the package | bilinear-scorer 1.2 |" in run.card
    assert api.evaluate(run.path)["scorer"].tails.num_queries == len(SCHOOL.test)
    assert len(api.load(run.path).ask("pupil a0", "taught_by", k=2)) == 2


def test_it_is_chosen_by_name_at_the_command_line(package: Path, in_folder: Path, capsys: pytest.CaptureFixture[str]):
    hopwalk.write_folder(SCHOOL, "school")
    short = ["--epochs", "1", "--set", "scorer.dimension=8"]
    assert (
        "runs/school-bilinear: finished after 1 epoch" in command(capsys, "train", "school", "--scorer", "Bilinear", *short).out
    )
    assert "there is no scorer 'bilinaer' Did you mean 'bilinear'?" in mistake(
        capsys, "train", "school", "--scorer", "bilinaer", *short
    )


def test_our_own_names_cannot_be_taken(package: Path, tmp_path: Path):
    run = hopwalk.train_scorer(SCHOOL, settings_of(model="complex", epochs=1), out=tmp_path / "run")
    assert type(hopwalk.load_scorer(run.path)).__name__ == "ComplEx" and "package" not in run.about


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong-kind", "it makes a Linear, not a hopwalk.scorers.base.TrainableScorer"),
        ("wrong-size", "it has 43 entities and 2 relations, not 42 and 2"),
        ("failing", r"cannot be made \(RuntimeError: no licence\)"),
        ("missing", r"cannot be made \(ModuleNotFoundError: No module named 'no_such_module'\)"),
    ],
)
def test_what_a_package_does_wrong_is_said_with_its_name(package: Path, tmp_path: Path, name: str, message: str):
    with pytest.raises(SettingsError, match=f"the scorer '{name}' of the package bilinear-scorer 1.2 .*{message}"):
        hopwalk.train_scorer(SCHOOL, settings_of(model=name), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_name_of_two_packages_is_refused(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(install(tmp_path / "other", "rival")))
    with pytest.raises(SettingsError, match=r"more than one package: bilinear-scorer 1\.2, rival 1\.2"):
        hopwalk.train_scorer(SCHOOL, settings_of(model="bilinear"), out=tmp_path / "run")


def test_a_run_folder_never_brings_its_own_code(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Not even with a whole package inside, and not if it is the current folder, which is on the path of `python -m hopwalk`."""
    run = hopwalk.train_scorer(SCHOOL, settings_of(model="bilinear", epochs=1), out=tmp_path / "run")
    shutil.rmtree(package)
    sys.modules.pop("bilinear_scorer")
    install(run.path)
    capsys.readouterr()
    for folder in (tmp_path, run.path):
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))
        with pytest.raises(UnknownNameError, match="there is no scorer 'bilinear'") as refused:
            hopwalk.load_scorer(run.path)
        assert "must be installed" in refused.value.remedy
    assert "imported" not in capsys.readouterr().out and "bilinear_scorer" not in sys.modules
