"""The tables and figures to reproduce, and the runs that each needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hopwalk.config.loading import load_settings
from hopwalk.errors import UnknownNameError, did_you_mean
from hopwalk.paper.published import TITLES
from hopwalk.paper.run_spec import NO_SCORER, NTP, SCORER_GROUPS, SMALL, RunSpec

FIVE = (0, 1, 2, 3, 4)
SCORERS = ("distmult", "complex", "conve")
RULE_MODELS = ("neural-lp", "drum")  # differentiable rules, as propagation of one number
SHAPING = ("complex", "conve", "propagation")  # f of the walkers
VARIANTS: dict[str, tuple[str, ...]] = {  # of Table 3
    "whole": (),
    "−RS": ("walker.reward_shaping=false",),
    "−AD": ("walker.action_dropout=0.0",),
}
# Without reward shaping or action dropout the authors' released configurations have other settings too.
_MORE_DROPOUT = ("walker.embedding_dropout=0.3", "walker.hidden_dropout=0.1")
RELEASED: dict[tuple[str, str], tuple[str, ...]] = {
    ("−RS", "umls"): (*_MORE_DROPOUT, "walker.action_dropout=0.9", "walker.gradient_clip=0.0"),
    ("−RS", "wn18rr"): (
        "walker.embedding_dropout=0.5",
        "walker.hidden_dropout=0.3",
        "walker.action_dropout=0.5",
        "walker.epochs=20",
    ),
    ("−RS", "nell-995"): ("walker.learning_rate=0.001", "walker.action_dropout=0.3"),
    ("−AD", "umls"): _MORE_DROPOUT,
}
FIRST = "first"  # runs by a recipe before it followed the releases to the letter
LABELS = {"whole": "", "−RS": "no-rs", "−AD": "no-ad"}
PAPERS_RATES = (0.1, 0.5, 0.9, 0.95)  # of action dropout, one for each data set; the sweep tries them on all
QUICK = (
    "scorer.epochs=10",
    "scorer.dimension=50",
    "propagation.queries=2000",
    "rules.queries=2000",
    "ntp.epochs=2",
    "walker.epochs=2",
    "walker.evaluate_every=1",
    "walker.rollouts=5",
    "walker.dimension=50",
    "walker.history_dimension=50",
)
QUICK_RATES = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Scope:
    """The data sets and seeds of a reproduction, and the `changes` of settings in every run, such as those of a quick one.

    With `seeds` None, each table has its own. `most_epochs` limits every run, 0 for no limit.
    """

    data_sets: tuple[str, ...] = tuple(TITLES)
    seeds: tuple[int, ...] | None = None
    changes: tuple[str, ...] = ()
    most_epochs: int = 0

    def scorer(self, data: str, model: str, recipe: str, seed: int = 0) -> RunSpec:
        """A scorer within the scope."""
        label = "quick" if self.changes else ""
        own = tuple(change for change in self.changes if change.startswith(SCORER_GROUPS))
        return RunSpec("scorer", data, model, recipe, seed, own, label, self.most_epochs)

    def ntp_with_complex(self, data: str, seed: int = 0) -> RunSpec:
        """NTP-λ ranked by the mean of the prover's and ComplEx's probability, not by the prover alone."""
        spec = self.scorer(data, NTP, "modern", seed)
        label = "-".join(part for part in ("mean", spec.label) if part)
        return replace(spec, overrides=("ntp.ranks_by=mean", *spec.overrides), label=label)

    def walker(
        self, data: str, model: str, recipe: str, seed: int = 0, overrides: Sequence[str] = (), label: str = ""
    ) -> RunSpec:
        """A walker within the scope; changes of the scorer's settings apply to its scorer."""
        overridden = {override.partition("=")[0] for override in overrides}
        own = tuple(change for change in self.changes if change.partition("=")[0] not in overridden)
        labels = [part for part in (label, "quick" if self.changes else "") if part]
        return RunSpec("walker", data, model, recipe, seed, (*overrides, *own), "-".join(labels), self.most_epochs)

    def variant(self, data: str, model: str, recipe: str, name: str, seed: int = 0, *, is_released: bool = True) -> RunSpec:
        """A walker of the ablation: whole, without reward shaping, or without action dropout.

        By the recipe `paper` its settings are those of the release, unless `is_released` is false: then nothing else changes.
        """
        released = RELEASED.get((name, data), ()) if recipe == "paper" and is_released else ()
        return self.walker(data, model, recipe, seed, (*VARIANTS[name], *released), LABELS[name])

    def first(self, spec: RunSpec) -> RunSpec:
        """A scorer by the recipe `paper`, or MINERVA, as these recipes were before they followed the releases to the letter."""
        if spec.kind == "scorer":
            of_scorer = ("smoothing_sum=0.0", "conve_layers=original", "input_dropout=0.3", "tail_dropout=0.3")
            return replace(spec, overrides=tuple(f"scorer.{change}" for change in of_scorer), label=FIRST)
        of_data = load_settings(spec.data, overrides=["walker.recipe=paper"])
        of_walker = ("baseline=average", "entropy_decay=0.99", "entropy_decay_steps=0")
        graph = (f"graph.fan_out={of_data.graph.fan_out}", f"walk.beam={of_data.walk.beam}")
        return replace(spec, overrides=(*(f"walker.{change}" for change in of_walker), *graph), label=FIRST)

    def swept(self, data: str, rate: float) -> RunSpec:
        """A walker of the sweep over rates of action dropout."""
        return self.walker(data, "complex", "modern", 0, (f"walker.action_dropout={rate}",), f"ad-{rate:g}")

    def rates(self, data: str) -> tuple[float, ...]:
        """The rates of the sweep: on the small sets also none, and completely random sampling, as the paper tried."""
        return QUICK_RATES if self.changes else (0.0, *PAPERS_RATES, 1.0) if data in SMALL else PAPERS_RATES

    def seeds_or(self, seeds: Sequence[int]) -> tuple[int, ...]:
        """The seeds of the scope, or the given ones if it has none."""
        return self.seeds if self.seeds is not None else tuple(seeds)


Plan = Callable[[Scope], Iterable[RunSpec]]


@dataclass(frozen=True)
class Target:
    """A table or figure of the paper."""

    name: str
    about: str
    plan: Plan


def _nothing(scope: Scope) -> Iterable[RunSpec]:
    return ()


def _table_2(scope: Scope) -> Iterable[RunSpec]:
    for data in scope.data_sets:
        for seed in scope.seeds_or((0,)):
            for recipe in ("modern", "paper") if data in SMALL else ("modern",):
                yield from (scope.scorer(data, model, recipe, seed) for model in SCORERS)
            models = (*RULE_MODELS, *((NTP,) if data in SMALL else ()), "propagation")  # the paper quotes NTP-λ on small sets
            yield from (scope.scorer(data, model, "modern", seed) for model in models)
            if data in SMALL:
                yield scope.ntp_with_complex(data, seed)
            yield from (scope.walker(data, model, "modern", seed) for model in ("complex", "propagation"))
            yield scope.walker(data, NO_SCORER, "minerva", seed)
            yield from (scope.walker(data, model, "paper", seed) for model in SHAPING)


def _ablation(scope: Scope) -> Iterable[RunSpec]:
    for data in scope.data_sets:
        for seed in scope.seeds_or((0,)):
            yield from (scope.variant(data, "conve", "paper", name, seed=seed) for name in VARIANTS)


def _seeds(scope: Scope) -> Iterable[RunSpec]:
    for data in scope.data_sets:
        for seed in scope.seeds_or(FIVE[:2] if scope.changes else FIVE if data in SMALL else (0,)):
            yield scope.scorer(data, "conve", "modern", seed)
            yield scope.walker(data, "complex", "modern", seed)
            yield scope.walker(data, "conve", "paper", seed)


def _sweep(scope: Scope) -> Iterable[RunSpec]:
    return (scope.swept(data, rate) for data in scope.data_sets for rate in scope.rates(data))


def _false_negatives(scope: Scope) -> Iterable[RunSpec]:
    data_sets = [data for data in scope.data_sets if data in SMALL]
    return (scope.variant(data, "conve", "paper", name) for data in data_sets for name in ("whole", "−RS"))


TARGETS = {
    target.name: target
    for target in (
        Target("table1", "data sets: entities, relations, facts, degrees", _nothing),
        Target("table2", "all models on all data sets, on test; ours beyond the paper; the models it quotes", _table_2),
        Target("table3", "ablation on dev: the whole walker, without reward shaping, without action dropout", _ablation),
        Target("table4", "the same for to-many and to-one relations", _ablation),
        Target("table5", "the same for seen and unseen queries", _ablation),
        Target("figure-false-negatives", "false negatives hit in the first 20 epochs of training", _false_negatives),
        Target("figure-convergence", "dev MRR and distinct paths per epoch: whole, −RS, −AD", _ablation),
        Target("appendix-seeds", "mean and deviation over seeds: five on UMLS and Kinship, one elsewhere", _seeds),
        Target("appendix-dev-complete", "the ablation on dev with the complete filter", _ablation),
        Target("appendix-dropout", "rates of action dropout, and a sweep of them", _sweep),
    )
}


def targets_of(names: Sequence[str]) -> list[Target]:
    """The targets of these names, in the order of the paper; "all" stands for all."""
    for name in names:
        if name != "all" and name not in TARGETS:
            remedy = did_you_mean(name, ["all", *TARGETS]) or f"There are: all, {', '.join(TARGETS)}."
            raise UnknownNameError(f"there is no table or figure {name!r}", remedy=remedy)
    return [target for name, target in TARGETS.items() if name in names or "all" in names]


def planned(targets: Iterable[Target], scope: Scope) -> list[RunSpec]:
    """The runs that the targets need, each once, scorers before the walkers that use them."""
    specs: dict[str, RunSpec] = {}
    for target in targets:
        for spec in target.plan(scope):
            if spec.needs_scorer:
                specs.setdefault(spec.scorer.name, spec.scorer)
            specs.setdefault(spec.name, spec)
    return list(specs.values())
