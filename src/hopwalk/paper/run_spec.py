"""The specification of a run that a table or figure needs: its name, its settings, its command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from hopwalk.config.loading import load_settings
from hopwalk.config.settings import ScorerSettings, Settings, WalkerSettings
from hopwalk.learning.training import is_below_mean

SMALL = ("umls", "kinship")  # these have five seeds, and scorers by the paper's recipe, whose 1,000 epochs are long elsewhere
SCORER_GROUPS = ("scorer.", "propagation.", "rules.", "ntp.")  # prefixes of the settings of scorers
NO_SCORER = "none"  # the model of a walker without a scorer
WALKING_SCORERS = ("propagation", "neural-lp", "drum")  # they score by walks; their budget is a number of queries
NTP = "ntp"  # it scores by proofs; its settings are a group of their own, as those of the scorers above
# Settings of the length, evaluation, memory and precision of training: they change how far a run comes, not which run it is.
BUDGET = frozenset(
    ("seed", "epochs", "patience", "evaluate_every", "mean_window", "dev_queries", "memory_mb", "precision", "train_on_valid")
)


@dataclass(frozen=True)
class Stopping:
    """When the training of a run is to end: after so many epochs, or before by patience or below the mean of a window."""

    epochs: int
    patience: int
    mean_window: int = 0

    @staticmethod
    def of(settings: ScorerSettings | WalkerSettings) -> Stopping:
        """That of settings."""
        return Stopping(settings.epochs, settings.patience, getattr(settings, "mean_window", 0))

    def is_over(self, epochs: int, mrrs: Sequence[float]) -> bool:
        """Whether a run of so many epochs with these MRRs on dev has come to its end."""
        if epochs >= self.epochs or not mrrs:
            return True
        if self.mean_window:
            return is_below_mean(mrrs, self.mean_window)
        best = max(range(len(mrrs)), key=lambda place: mrrs[place])
        return len(mrrs) - 1 - best >= self.patience


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
        seeds = [f"propagation.seed={self.seed}", f"rules.seed={self.seed}", f"ntp.seed={self.seed}"]
        model = [f"scorer.model={self.model}", *seeds] if self.kind == "scorer" else []
        return [*recipe, *model, *self._changes]

    @property
    def _changes(self) -> list[str]:
        """The settings that differ from the recipe, as `name=value`."""
        has_no_scorer = self.kind == "walker" and self.model == NO_SCORER
        changes = ["walker.reward_shaping=false"] if has_no_scorer else []
        changes += self.overrides
        if self.most_epochs and not (self.kind == "scorer" and self.model in (*WALKING_SCORERS, NTP)):
            recipe = [f"{self.kind}.recipe={self.recipe}", *([f"scorer.model={self.model}"] if self.kind == "scorer" else [])]
            epochs = getattr(_loaded(self.data, (*recipe, *changes)), self.kind).epochs
            changes += [f"{self.kind}.epochs={self.most_epochs}"] if epochs > self.most_epochs else []
        return changes

    @property
    def settings(self) -> Settings:
        """The settings of its training."""
        return _loaded(self.data, tuple(self.all_overrides))

    @property
    def stopping(self) -> Stopping:
        """When its training is to end."""
        return Stopping.of(getattr(self.settings, self.kind))

    @property
    def needs_scorer(self) -> bool:
        """Whether it is a walker that a scorer rewards."""
        return self.kind == "walker" and self.settings.walker.reward_shaping

    @property
    def scorer(self) -> RunSpec:
        """The scorer that it needs; its seed is the walker's if it trains in a minute.

        The recipe `paper` of ConvE is for the small sets: on NELL-995 its 1,000 epochs would take two days (docs/conve.md).
        """
        overrides = tuple(override for override in self.overrides if override.startswith(SCORER_GROUPS))
        label = "quick" if overrides else ""
        is_papers = (self.model, self.recipe) == ("conve", "paper")
        recipe = "paper" if is_papers and self.data in SMALL else "modern"
        seed = 0 if is_papers else self.seed
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
