"""The paper's tables from the ledger, with our numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hopwalk.config.loading import load_settings
from hopwalk.paper.ledger import Result, best_of_seeds
from hopwalk.paper.parts import NOT_RUN, Group, ResultView, Section, Table, beside
from hopwalk.paper.plan import FIRST, RULE_MODELS, SCORERS, SHAPING, VARIANTS, Scope
from hopwalk.paper.protocol import LEFT_OUT
from hopwalk.paper.published import (
    ACTION_DROPOUT,
    DEV_COMPLETE,
    FIVE_SEEDS,
    TABLE_1,
    TABLE_2,
    TABLE_2_QUOTED,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    TITLES,
    Ablation,
    Stratum,
)
from hopwalk.paper.run_spec import BUDGET, NO_SCORER, NTP, SMALL, RunSpec
from hopwalk.utils.text import duration

MODEL_TITLES = {
    "distmult": "DistMult",
    "complex": "ComplEx",
    "conve": "ConvE",
    "neural-lp": "NeuralLP",
    "drum": "DRUM",
    NTP: "NTP-λ",
}
ALONE, EMBEDDINGS, PROPAGATION = "walker alone", "embedding scorer", "propagation"
SEVERAL, BLEND = "several propagation models together", "propagation with an embedding scorer"
NEURAL_LP, DRUM = (MODEL_TITLES[model] for model in RULE_MODELS)
NTP_LAMBDA = MODEL_TITLES[NTP]
BEYOND: dict[str, Callable[[Result], bool]] = {  # our best runs of any settings: title → whether a run is one
    ALONE: lambda result: result.kind == "walker",
    EMBEDDINGS: lambda result: result.is_embedding_scorer,
    NEURAL_LP: lambda result: result.kind == "scorer" and result.model == "neural-lp",
    DRUM: lambda result: result.kind == "scorer" and result.model == "drum",
    NTP_LAMBDA: lambda result: result.kind == "scorer" and result.model == NTP and result.settings[NTP]["ranks_by"] == "prover",
    PROPAGATION: lambda result: result.kind == "scorer" and result.model == "propagation",
    SEVERAL: lambda result: result.kind == "ensemble" and result.is_of_walks,
    BLEND: lambda result: result.kind == "ensemble" and result.has_walks and not result.is_of_walks,
}
PAPER, ALL_ELSE_EQUAL = "paper, ConvE", "paper, ConvE, all else equal"
ABLATIONS = {  # title → scorer, recipe, and whether variants have the settings of the release
    PAPER: ("conve", "paper", True),
    ALL_ELSE_EQUAL: ("conve", "paper", False),
    "paper, ComplEx": ("complex", "paper", True),
    "modern, ComplEx": ("complex", "modern", True),
}
_OF_VARIANT = {"whole": "whole", "−RS": "no_rs", "−AD": "no_ad"}


def table_1(view: ResultView) -> Section:
    """The data sets."""
    rows = []
    for data in view.scope.data_sets:
        counts, papers = view.ledger.data.get(data), TABLE_1[data]
        if counts is None:
            rows.append((TITLES[data], *([NOT_RUN] * 5)))
            continue
        found = counts["num_entities"], counts["num_relations"], counts["num_facts"]
        degree = counts["out_degree"]
        rows.append(
            (
                TITLES[data],
                *(f"{ours:,} ({theirs:,})" for ours, theirs in zip(found, papers[:3], strict=True)),
                f"{degree['mean']:.2f} ({papers.mean_degree:.2f})",
                f"{degree['median']:.0f} ({papers.median_degree})",
            )
        )
    columns = ("", "entities", "relations", "facts in the graph", "mean degree", "median degree")
    text = (
        "Our counts, with the paper's in brackets. The degree of an entity is the number of facts with it as head. For NELL-995 "
        "the paper counts the facts of all splits, and degrees in both directions; our graph has no facts of dev and test."
    )
    return Section("table1", "Table 1: data sets", text, (Table("", columns, tuple(rows)),))


def table_2(view: ResultView) -> Section:
    """All models on all data sets."""
    tables = [_summary(view)] + [_models_on(view, data) for data in view.scope.data_sets]
    text = (
        "Tail queries of test, in percent; the paper's numbers in brackets. The recipe `paper` trains as the authors' released "
        "configurations do, `modern` is ours; *first* are runs by a recipe that did not follow the releases to the letter. A "
        "walker is ranked by the probability of its paths alone, as in the paper; the model beside it is the f of its reward. "
        "NeuralLP, NTP-λ and MINERVA are quoted by the paper from Das et al. (2018). On NELL-995 the "
        "paper's test models were trained on the dev facts too; ours were not, unless a row says so. The last rows are our best "
        "runs of any settings, selected on dev. Standard deviations are over seeds."
    )
    return Section("table2", "Table 2: all models", text, tuple(tables))


def runs_of_table_2(scope: Scope, data: str) -> Iterator[tuple[str, RunSpec]]:
    """The models of the paper and of ours beside them: name, and specs of each recipe and of the first runs by it."""
    for model in SCORERS:
        specs = [scope.scorer(data, model, recipe) for recipe in ("paper", "modern")]
        yield from ((MODEL_TITLES[model], spec) for spec in (*specs, scope.first(specs[0])))
    yield from ((MODEL_TITLES[model], scope.scorer(data, model, "modern")) for model in RULE_MODELS)
    if data in SMALL:
        yield NTP_LAMBDA, scope.scorer(data, NTP, "modern")
        yield f"{NTP_LAMBDA}, mean with ComplEx", scope.ntp_with_complex(data)
    minerva = scope.walker(data, NO_SCORER, "minerva")
    yield from (("MINERVA", spec) for spec in (minerva, scope.first(minerva)))
    for model in SHAPING:
        title = f"walker, {MODEL_TITLES.get(model, model)}"
        yield from ((title, scope.walker(data, model, recipe)) for recipe in ("paper", "modern"))


def _is_planned(spec: RunSpec) -> bool:
    """Whether the plan of Table 2 has the run; others are shown if they were made."""
    if spec.label == FIRST:
        return False
    if spec.kind == "scorer":
        return spec.recipe == "modern" or spec.data in SMALL
    return (spec.model, spec.recipe) != ("conve", "modern")


def _models_on(view: ResultView, data: str) -> Table:
    rows, papers = [], TABLE_2[data] | TABLE_2_QUOTED[data]
    for title, spec in runs_of_table_2(view.scope, data):
        group = view.group(spec)
        if group.results or _is_planned(spec):
            recipe = f"{spec.recipe} (first)" if spec.label == FIRST else spec.recipe
            rows.append(_row(title, recipe, group, papers.get(title)))
        with_dev = view.group(spec, trained_on_dev=True)
        if with_dev.results:
            rows.append(_row(f"{title}, trained on dev too", spec.recipe, with_dev, papers.get(title)))
    with_row = {title for title, _ in runs_of_table_2(view.scope, data)}
    for title, numbers in TABLE_2_QUOTED[data].items():
        if title not in with_row:
            rows.append((f"{title}, quoted", "", "", *(f"({number:.1f})" for number in numbers), "", "", "", ""))
    for title, group in best_of(view, data).items():
        if title in with_row:
            continue
        first = group.finished[0]
        name = (first.name if first.kind == "ensemble" else first.name.rpartition("-")[0]).removeprefix(f"{data}-")
        rows.append(_row(f"best {title}", name, group, None))
    columns = ("model", "recipe", "seeds", "hits@1", "hits@10", "MRR", "difference", "unreached", "epochs", "training")
    return Table(TITLES[data], columns, tuple(rows), num_text=2)


def _row(title: str, recipe: str, group: Group, papers: tuple[float, float, float] | None) -> tuple[str, ...]:
    hits_1, hits_10, mrr = papers or (None, None, None)
    mean, unreached = group.mean("test"), group.mean("test", "unreached")
    reaches_all = any(result.is_embedding_scorer for result in group.finished)
    return (
        title,
        recipe,
        f"{len(group.shown)}" if group.shown else "",
        beside(_short(group, "hits@1"), hits_1),
        beside(_short(group, "hits@10"), hits_10),
        beside(group.text("test"), mrr),
        "" if mean is None or mrr is None else f"{mean - mrr:+.1f}",
        "" if unreached is None or reaches_all else f"{unreached:.1f} %",
        group.epochs,
        duration(group.seconds),
    )


def _short(group: Group, metric: str) -> str:
    mean = group.mean("test", metric)
    return "–" if mean is None else f"{mean:.1f}"


def best_of(view: ResultView, data: str) -> dict[str, Group]:
    """Our best runs of any settings, selected on dev, by title."""
    found = {title: _best(view, data, is_one) for title, is_one in BEYOND.items()}
    return {title: group for title, group in found.items() if group is not None}


def _best(view: ResultView, data: str, is_one: Callable[[Result], bool]) -> Group | None:
    """The runs of the settings whose first seed is the best on dev; none of them was trained on dev."""
    groups: dict[str, list[Result]] = {}
    for result in view.ledger.results:
        is_eligible = result.is_finished and not result.trained_on_dev and result.mrr("test") is not None
        if is_eligible and result.data == data and is_one(result):
            groups.setdefault(_settings_key(result), []).append(result)

    def on_dev(key: str) -> tuple[float, int]:
        """The dev MRR of the first seed, which all settings have; among equals, the number of seeds decides."""
        first = min(groups[key], key=lambda result: result.seed)
        return first.mrr("valid") or 0.0, len(groups[key])

    best = max(sorted(groups), key=on_dev, default=None)
    if best is None:
        return None
    chosen = best_of_seeds(groups[best])
    return Group(tuple(chosen), chosen[0].stopping_of_recipe)


def _settings_key(result: Result) -> str:
    """A key that runs share if they differ only in seed and budget."""
    if result.kind == "ensemble":
        return result.name
    kept = {
        group: {name: value for name, value in values.items() if name not in BUDGET} for group, values in result.settings.items()
    }
    return f"{result.kind} {result.rewarded_by} {result.started_from} {kept}"


def _summary(view: ResultView) -> Table:
    """The MRR of every model on every data set: our better recipe, selected on dev, beside the paper's."""
    lines: dict[str, list[str]] = {}
    for data in view.scope.data_sets:
        best: dict[str, tuple[float, str]] = {}  # dev MRR, text
        for title, spec in runs_of_table_2(view.scope, data):
            group = view.group(spec)
            on_dev = group.mean("valid")
            if on_dev is None:
                on_dev = -0.5 if group.results else -1.0  # unfinished runs are shown before those that were not run
            best[title] = max(best.get(title, (-2.0, "")), (on_dev, group.text("test")), key=lambda pair: pair[0])
        papers = TABLE_2[data] | TABLE_2_QUOTED[data]
        for title, (_, text) in best.items():
            lines.setdefault(title, []).append(beside(text, papers[title][2] if title in papers else None))
    of_best = {data: best_of(view, data) for data in view.scope.data_sets}
    for title in BEYOND:
        if title not in lines and any(title in found for found in of_best.values()):
            lines[f"best {title}"] = [found[title].text("test") if title in found else NOT_RUN for found in of_best.values()]
    columns = ("MRR", *(TITLES[data] for data in view.scope.data_sets))
    return Table(
        "Summary: the recipe that is better on dev",
        columns,
        tuple((title, *cells) for title, cells in lines.items()),
    )


PAPERS_QUERIES = "On NELL-995 the paper leaves out the dev queries about entities without a fact in the graph; both are shown."


def table_3(view: ResultView) -> Section:
    """The ablation on dev."""
    text = (
        "Dev MRR by the policy, in percent; the paper's numbers in brackets. Test facts are not filtered. −RS is without reward "
        "shaping, −AD without action dropout. The paper's walker is the recipe `paper` with ConvE; the other rows are ours. In "
        "the authors' released configurations −RS and −AD have other settings too; with *all else equal* they do not. "
        f"{PAPERS_QUERIES}"
    )
    return Section("table3", "Table 3: ablation", text, (_ablation_table(view, "valid", TABLE_3),))


def appendix_dev_complete(view: ResultView) -> Section:
    """The ablation on dev with the complete filter."""
    return Section(
        "appendix-dev-complete",
        "Appendix: dev with the complete filter",
        "As Table 3, with test facts filtered too.",
        (_ablation_table(view, "valid_complete_filter", DEV_COMPLETE),),
    )


@dataclass(frozen=True)
class _Dev:
    """The dev queries of a column or row: the paper's, or on data sets where it leaves some out, all of them."""

    data: str
    title: str
    are_papers: bool = True

    def of(self, group: Group) -> Group:
        """The runs with their numbers on these queries."""
        return group.with_papers_queries if self.are_papers else group


def _dev_sets(data_sets: Sequence[str]) -> list[_Dev]:
    sets = [[_Dev(data, TITLES[data]), _Dev(data, f"{TITLES[data]}, all queries", False)] for data in data_sets]
    return [dev for pair in sets for dev in pair if dev.are_papers or dev.data in LEFT_OUT]


def variants_of(view: ResultView, data: str, family: str) -> dict[str, Group]:
    """The runs of an ablation, by variant."""
    model, recipe, is_released = ABLATIONS[family]
    return {name: view.group(view.scope.variant(data, model, recipe, name, is_released=is_released)) for name in VARIANTS}


def _is_shown(view: ResultView, family: str) -> bool:
    """Whether an ablation has runs, or is the paper's."""
    groups = (group for data in view.scope.data_sets for group in variants_of(view, data, family).values())
    return family == PAPER or any(group.results for group in groups)


def _ablation_table(view: ResultView, split: str, papers: Mapping[str, Ablation]) -> Table:
    rows, columns = [], _dev_sets(view.scope.data_sets)
    for family in ABLATIONS:
        if not _is_shown(view, family):
            continue
        groups = {data: variants_of(view, data, family) for data in view.scope.data_sets}
        for variant in VARIANTS:
            if family != PAPER and not any(of_data[variant].results for of_data in groups.values()):
                continue
            theirs = {data: getattr(numbers, _OF_VARIANT[variant]) for data, numbers in papers.items()}
            cells = [
                beside(dev.of(groups[dev.data][variant]).text(split), theirs[dev.data] if dev.are_papers else None)
                for dev in columns
            ]
            rows.append((f"{family}: {variant}", *cells))
    return Table("", ("walker", *(dev.title for dev in columns)), tuple(rows))


def ablation_results(view: ResultView) -> list[Result]:
    """All runs of the ablation."""
    groups = (
        group for data in view.scope.data_sets for family in ABLATIONS for group in variants_of(view, data, family).values()
    )
    return list({result.name: result for group in groups for result in group.results}.values())


def table_4(view: ResultView) -> Section:
    """The ablation for to-many and to-one relations."""
    text = (
        "Dev MRR by the policy, by kind of relation, and the share of the queries, in percent; the paper's numbers in brackets. "
        f"{PAPERS_QUERIES}"
    )
    return Section("table4", "Table 4: to-many and to-one", text, _strata_tables(view, ("to-many", "to-one"), TABLE_4))


def table_5(view: ResultView) -> Section:
    """The ablation for seen and unseen queries."""
    text = (
        "Dev MRR by the policy, for queries that have an answer in train (seen) and for others; the paper's numbers in brackets. "
        f"{PAPERS_QUERIES}"
    )
    return Section("table5", "Table 5: seen and unseen", text, _strata_tables(view, ("seen", "unseen"), TABLE_5))


def _strata_tables(view: ResultView, strata: Sequence[str], papers: Mapping[str, Mapping[str, Stratum]]) -> tuple[Table, ...]:
    tables = []
    for family in ABLATIONS:
        if not _is_shown(view, family):
            continue
        rows = []
        for dev in _dev_sets(view.scope.data_sets):
            groups = {name: dev.of(group) for name, group in variants_of(view, dev.data, family).items()}
            for stratum in strata:
                theirs = papers[dev.data][stratum] if dev.are_papers else Stratum(float("nan"), None)
                cells = [_in_stratum(group, stratum, theirs, _OF_VARIANT[name]) for name, group in groups.items()]
                share = beside(_share(groups["whole"], stratum), theirs.share if dev.are_papers else None)
                rows.append((dev.title, stratum, share, *cells))
        tables.append(Table(f"Recipe {family}", ("", "queries", "share", *VARIANTS), tuple(rows), num_text=2))
    return tuple(tables)


def _in_stratum(group: Group, stratum: str, papers: Stratum, variant: str) -> str:
    ours = group.text("valid", stratum=stratum)
    return beside(ours, None if papers.mrr is None else getattr(papers.mrr, variant))


def _share(group: Group, stratum: str) -> str:
    for result in group.finished:
        numbers = result.numbers("valid")
        if numbers:
            return f"{100 * numbers['strata'][stratum]['num_queries'] / numbers['tails']['num_queries']:.1f}"
    return "–"


def appendix_seeds(view: ResultView) -> Section:
    """Mean and deviation over seeds."""
    rows = []
    for data in view.scope.data_sets:
        scope, papers = view.scope, FIVE_SEEDS[data]
        runs = {
            "ConvE": scope.scorer(data, "conve", "modern"),
            "walker, ConvE": scope.walker(data, "conve", "paper"),
            "modern walker, ComplEx": scope.walker(data, "complex", "modern"),
        }
        cells = []
        for title, spec in runs.items():
            group = view.group(spec)
            count = f", {len(group.finished)} seed{'s' * (len(group.finished) > 1)}" if group.finished else ""
            theirs = papers.get(title)
            beside_it = f" ({theirs.mean:.1f} ± {theirs.deviation:.1f})" if theirs else ""
            cells.append(f"{group.text('test')}{count}{beside_it}")
        rows.append((TITLES[data], *cells))
    columns = ("", "ConvE, recipe modern", "walker, ConvE, recipe paper", "walker, ComplEx, recipe modern")
    text = "Mean and standard deviation of test MRR over seeds, in percent; the paper's, over five seeds, in brackets."
    return Section("appendix-seeds", "Appendix: seeds", text, (Table("", columns, tuple(rows)),))


def rates_table(view: ResultView) -> Table:
    """Rates of action dropout, by mean degree."""
    rows = []
    by_degree = sorted(view.scope.data_sets, key=lambda data: -TABLE_1[data].mean_degree)
    for data in by_degree:
        swept = {rate: view.group(view.scope.swept(data, rate)).mean("valid") for rate in view.scope.rates(data)}
        known = {rate: mrr for rate, mrr in swept.items() if mrr is not None}
        best = max(known, key=lambda rate: known[rate]) if len(known) > 1 else None
        tried = ", ".join(f"{rate:g}: {mrr:.1f}" for rate, mrr in known.items())
        ours = load_settings(data).walker.action_dropout
        shown = NOT_RUN if best is None else f"{best:g}"
        rows.append((TITLES[data], f"{TABLE_1[data].mean_degree:.2f}", f"{ACTION_DROPOUT[data]:g}", f"{ours:g}", shown, tried))
    columns = ("", "mean degree (paper)", "paper", "recipe modern", "best of the sweep", "dev MRR by rate")
    return Table("", columns, tuple(rows))
