"""A run that a table or figure needs: what it is called, which settings it has, which command makes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from hopwalk.config.loading import load_settings
from hopwalk.config.settings import Settings

SMALL = ("umls", "kinship")  # with five seeds, and the paper's recipes for scorers, which go through all tails for 1,000 epochs
NOBODY = "none"  # rewards a walker without a scorer
# How long training may go on, how often it is looked at and what it may take: these change how far a run comes, not what it is.
# A run that learns dev too has its blend from one that does not.
BUDGET = frozenset({"seed", "epochs", "patience", "evaluate_every", "dev_queries", "memory_mb", "train_on_valid", "blend_weight"})


@dataclass(frozen=True)
class RunSpec:
    """A scorer, or a walker that `model` rewards, by a recipe, with some settings changed; `label` is for them in the name.

    `most_epochs` is a limit below that of the recipe, 0 for none; it makes no other run of it.

    >>> RunSpec("walker", "umls", "conve", "paper", overrides=("walker.action_dropout=0.0",), label="no-ad").name
    'umls-paper-conve-no-ad-0'
    """

    kind: Literal["scorer", "walker"]
    data: str
    model: str
    recipe: str
    seed: int = 0
    overrides: tuple[str, ...] = ()
    label: str = ""
    most_epochs: int = 0

    @property
    def name(self) -> str:
        """Of the run in the ledger."""
        parts = [self.model, self.recipe] if self.kind == "scorer" else [self.recipe, self.model]
        return "-".join([self.data, *parts, *([self.label] if self.label else []), str(self.seed)])

    @property
    def folder(self) -> str:
        """Of the run among all runs."""
        return self.name if self.kind == "scorer" else f"walker-{self.name}"

    @property
    def said(self) -> list[str]:
        """All that differs from the defaults, as `name=value`."""
        recipe = [f"{self.kind}.recipe={self.recipe}", f"{self.kind}.seed={self.seed}"]
        model = [f"scorer.model={self.model}"] if self.kind == "scorer" else []
        return [*recipe, *model, *self._changes]

    @property
    def _changes(self) -> list[str]:
        """What differs from the recipe."""
        is_alone = self.kind == "walker" and self.model == NOBODY
        changes = ["walker.reward_shaping=false", "walker.guidance=0.0"] if is_alone else []
        changes += self.overrides
        if self.most_epochs:
            named = [f"{self.kind}.recipe={self.recipe}", *([f"scorer.model={self.model}"] if self.kind == "scorer" else [])]
            epochs = getattr(_loaded(self.data, (*named, *changes)), self.kind).epochs
            changes += [f"{self.kind}.epochs={self.most_epochs}"] if epochs > self.most_epochs else []
        return changes

    @property
    def settings(self) -> Settings:
        """What it is trained with."""
        return _loaded(self.data, tuple(self.said))

    @property
    def needs_scorer(self) -> bool:
        """Whether it is a walker that a scorer rewards or guides."""
        return self.kind == "walker" and self.settings.walker.needs_scorer

    @property
    def scorer(self) -> RunSpec:
        """The scorer that it needs, by the recipe that is better on dev; its seed is the walker's if it trains in a minute."""
        overrides = tuple(override for override in self.overrides if override.startswith("scorer."))
        label = "quick" if overrides else ""
        recipe = "paper" if self.model == "conve" and self.data in SMALL else "modern"
        seed = 0 if recipe == "paper" else self.seed
        return RunSpec("scorer", self.data, self.model, recipe, seed, overrides, label, self.most_epochs)

    @property
    def _scorers_own(self) -> str:
        """What the command says of the scorer where it is not the usual one."""
        scorer = self.scorer
        recipe = f" --recipe {scorer.recipe}" if scorer.recipe != "modern" else ""
        return recipe + (f" --set scorer.seed={scorer.seed}" if scorer.seed != self.seed else "")

    @property
    def command(self) -> str:
        """The command that makes such a run by hand."""
        if self.kind == "scorer":
            options = f"--scorer {self.model} --recipe {self.recipe} --seed {self.seed}"
        else:
            reward = f" --reward {self.model}{self._scorers_own}" if self.needs_scorer else ""
            options = f"--walker {self.recipe} --seed {self.seed}{reward}"
        return " ".join([f"hopwalk train {self.data} {options}", *(f"--set {change}" for change in self._changes)])


@cache
def _loaded(data: str, said: tuple[str, ...]) -> Settings:
    return load_settings(data, overrides=said)
