"""The specification of a run that a table or figure needs: its name, its settings, its command."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from hopwalk.config.loading import load_settings
from hopwalk.config.settings import Settings

SMALL = ("umls", "kinship")  # these have five seeds, and scorers by the paper's recipe, whose 1,000 epochs are long elsewhere
SCORER_GROUPS = ("scorer.", "propagation.", "rules.")  # prefixes of the settings of scorers
NO_SCORER = "none"  # the model of a walker without a scorer
WALKING_SCORERS = ("propagation", "neural-lp", "drum")  # they score by walks; their budget is a number of queries
# Settings of the length, evaluation and memory of training: they change how far a run comes, not which run it is.
BUDGET = frozenset({"seed", "epochs", "patience", "evaluate_every", "dev_queries", "memory_mb", "train_on_valid"})


@dataclass(frozen=True)
class RunSpec:
    """A scorer, or a walker with a scorer of that `model`, by a recipe with `overrides`; `label` stands for these in the name.

    `most_epochs` limits the epochs of the recipe, 0 for no limit; it does not make it another run.

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
        """The name of the run in the ledger."""
        parts = [self.model, self.recipe] if self.kind == "scorer" else [self.recipe, self.model]
        return "-".join([self.data, *parts, *([self.label] if self.label else []), str(self.seed)])

    @property
    def folder(self) -> str:
        """The name of the run's folder."""
        return self.name if self.kind == "scorer" else f"walker-{self.name}"

    @property
    def all_overrides(self) -> list[str]:
        """All settings that differ from the defaults, as `name=value`: recipe, seed, model and changes."""
        recipe = [f"{self.kind}.recipe={self.recipe}", f"{self.kind}.seed={self.seed}"]
        seeds = [f"propagation.seed={self.seed}", f"rules.seed={self.seed}"]
        model = [f"scorer.model={self.model}", *seeds] if self.kind == "scorer" else []
        return [*recipe, *model, *self._changes]

    @property
    def _changes(self) -> list[str]:
        """The settings that differ from the recipe, as `name=value`."""
        has_no_scorer = self.kind == "walker" and self.model == NO_SCORER
        changes = ["walker.reward_shaping=false"] if has_no_scorer else []
        changes += self.overrides
        if self.most_epochs and not (self.kind == "scorer" and self.model in WALKING_SCORERS):
            recipe = [f"{self.kind}.recipe={self.recipe}", *([f"scorer.model={self.model}"] if self.kind == "scorer" else [])]
            epochs = getattr(_loaded(self.data, (*recipe, *changes)), self.kind).epochs
            changes += [f"{self.kind}.epochs={self.most_epochs}"] if epochs > self.most_epochs else []
        return changes

    @property
    def settings(self) -> Settings:
        """The settings of its training."""
        return _loaded(self.data, tuple(self.all_overrides))

    @property
    def needs_scorer(self) -> bool:
        """Whether it is a walker that a scorer rewards."""
        return self.kind == "walker" and self.settings.walker.reward_shaping

    @property
    def scorer(self) -> RunSpec:
        """The scorer that it needs, by the recipe that is better on dev; its seed is the walker's if it trains in a minute."""
        overrides = tuple(override for override in self.overrides if override.startswith(SCORER_GROUPS))
        label = "quick" if overrides else ""
        recipe = "paper" if self.model == "conve" and self.data in SMALL else "modern"
        seed = 0 if recipe == "paper" else self.seed
        return RunSpec("scorer", self.data, self.model, recipe, seed, overrides, label, self.most_epochs)

    @property
    def _scorer_options(self) -> str:
        """The options of the scorer that differ from the defaults."""
        scorer = self.scorer
        recipe = f" --recipe {scorer.recipe}" if scorer.recipe != "modern" else ""
        return recipe + (f" --set scorer.seed={scorer.seed}" if scorer.seed != self.seed else "")

    @property
    def command(self) -> str:
        """The command that makes such a run."""
        if self.kind == "scorer":
            options = f"--scorer {self.model} --recipe {self.recipe} --seed {self.seed}"
        else:
            reward = f" --reward {self.model}{self._scorer_options}" if self.needs_scorer else ""
            options = f"--walker {self.recipe} --seed {self.seed}{reward}"
        return " ".join([f"hopwalk train {self.data} {options}", *(f"--set {change}" for change in self._changes)])


@cache
def _loaded(data: str, overrides: tuple[str, ...]) -> Settings:
    return load_settings(data, overrides=overrides)
