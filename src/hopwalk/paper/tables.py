"""The paper's tables from the ledger, with our numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hopwalk.config.loading import load_settings
from hopwalk.paper.ledger import Result, best_of_seeds
from hopwalk.paper.parts import NOT_RUN, Group, ResultView, Section, Table, beside
from hopwalk.paper.plan import SCORERS, UNGUIDED, VARIANTS, Scope
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
from hopwalk.paper.run_spec import BUDGET, NO_SCORER, SMALL, RunSpec
from hopwalk.utils.text import duration
from hopwalk.walker.decoding import BLEND, POLICY, RERANKED

ALONE, GUIDED = "walker alone", "walker guided by the scorer"
SCORER_ALONE, PROPAGATION, NEURAL_LP, DRUM = "embedding scorer", "propagation", "NeuralLP", "DRUM"
BEYOND = {  # our best runs of any settings: title → kinds of runs, ranking of walkers
    ALONE: (("walker",), POLICY),  # no scorer in the walk or in the ranking, as in the paper
    GUIDED: (("walker",), POLICY),
    "walker re-ranked with the scorer": (("walker",), RERANKED),
    "control: untrained walker, re-ranked": (("walker",), f"untrained_{RERANKED}"),
    "blend of walker and scorer": (("walker",), BLEND),
    SCORER_ALONE: (("scorer", "ensemble"), ""),
    PROPAGATION: (("scorer",), ""),
    NEURAL_LP: (("scorer",), ""),
    DRUM: (("scorer",), ""),
}
FAMILIES = {SCORER_ALONE: "", PROPAGATION: "propagation", NEURAL_LP: "neural-lp", DRUM: "drum"}
MODEL_TITLES = {"distmult": "DistMult", "complex": "ComplEx", "conve": "ConvE"}
ABLATIONS = {  # title → scorer, recipe, changes of all variants
    "paper, ConvE": ("conve", "paper", ()),
    "paper, ComplEx": ("complex", "paper", ()),
    "modern, not guided, ComplEx": ("complex", "modern", UNGUIDED),
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
        "Tail queries of test, in percent; the paper's numbers in brackets. The recipe `paper` trains as the paper does, "
        "`modern` is ours. NeuralLP, NTP-λ and MINERVA are quoted by the paper from Das et al. (2018); we have not run "
        "NTP-λ. The last rows are our best runs of any settings, selected on dev. Walkers are ranked by the probability "
        "of their paths, as in the paper, unless a row says otherwise; those of the recipe `modern` are guided by the scorer "
        "in the last hop, which the paper's are not. Guided, re-ranked and blended rankings are ours. Standard deviations are "
        "over seeds."
    )
    return Section("table2", "Table 2: all models", text, tuple(tables))


def runs_of_table_2(scope: Scope, data: str) -> Iterator[tuple[str, RunSpec, str]]:
    """For each model of the paper: its name, a spec of ours for it, and the ranking."""
    for model in SCORERS:
        yield from ((MODEL_TITLES[model], scope.scorer(data, model, recipe), "") for recipe in ("paper", "modern"))
    yield "MINERVA", scope.walker(data, NO_SCORER, "minerva"), POLICY
    for model in ("complex", "conve"):
        title = f"walker, {MODEL_TITLES[model]}"
        yield from ((title, scope.walker(data, model, recipe), POLICY) for recipe in ("paper", "modern"))


def _models_on(view: ResultView, data: str) -> Table:
    rows = []
    for title, spec, by in runs_of_table_2(view.scope, data):
        group = view.group(spec, for_test=True)
        is_planned = spec.recipe != "paper" or by or data in SMALL
        if group.results or (is_planned and (title, spec.recipe) != ("walker, ConvE", "modern")):
            rows.append(_row(title, spec.recipe, group, by, TABLE_2[data][title]))
    best, quoted = best_of(view, data), TABLE_2_QUOTED[data]
    for title, numbers in quoted.items():
        if title not in best:
            rows.append((f"{title}, quoted", "", "", *(f"({number:.1f})" for number in numbers), "", "", "", ""))
    for title, (group, by) in best.items():
        first = group.finished[0]
        name = (first.name if first.kind == "ensemble" else first.name.rpartition("-")[0]).removeprefix(f"{data}-")
        rows.append(_row(title, name, group, by, quoted.get(title)))
    columns = ("model", "recipe", "seeds", "hits@1", "hits@10", "MRR", "difference", "unreached", "epochs", "training")
    return Table(TITLES[data], columns, tuple(rows), num_text=2)


def _row(title: str, recipe: str, group: Group, by: str, papers: tuple[float, float, float] | None) -> tuple[str, ...]:
    hits_1, hits_10, mrr = papers or (None, None, None)
    mean = group.mean("test", by=by)
    unreached = group.mean("test", "unreached", by) if by in (POLICY, RERANKED) else None
    return (
        title,
        recipe,
        f"{len(group.shown)}" if group.shown else "",
        beside(_short(group, "hits@1", by), hits_1),
        beside(_short(group, "hits@10", by), hits_10),
        beside(group.text("test", by=by), mrr),
        "" if mean is None or mrr is None else f"{mean - mrr:+.1f}",
        "" if unreached is None else f"{unreached:.1f} %",
        group.epochs,
        duration(group.seconds),
    )


def _short(group: Group, metric: str, by: str) -> str:
    mean = group.mean("test", metric, by)
    return "–" if mean is None else f"{mean:.1f}"


def best_of(view: ResultView, data: str) -> dict[str, tuple[Group, str]]:
    """Our best runs of any settings, selected on dev, and their ranking, by title."""
    found = {title: (_best(view, data, title, kinds, by), by) for title, (kinds, by) in BEYOND.items()}
    return {title: (group, by) for title, (group, by) in found.items() if group is not None}


def _best(view: ResultView, data: str, title: str, kinds: Sequence[str], by: str) -> Group | None:
    """The runs of the settings whose first seed is the best on dev; those also trained on dev, if there are any."""
    groups: dict[str, list[Result]] = {}
    with_dev: dict[str, list[Result]] = {}
    for result in view.ledger.results:
        is_eligible = result.mrr("test", by) is not None and (result.is_reranked or by != RERANKED)
        if title in (ALONE, GUIDED):
            is_eligible = is_eligible and result.is_guided == (title == GUIDED)
        if title in FAMILIES:
            is_eligible = is_eligible and result.family == FAMILIES[title]
        if result.is_finished and result.data == data and result.kind in kinds and is_eligible:
            (with_dev if result.trained_on_dev else groups).setdefault(_settings_key(result), []).append(result)

    def on_dev(key: str) -> tuple[float, int]:
        """The dev MRR of the first seed, which all settings have; among equals, the number of seeds decides."""
        first = min(groups[key], key=lambda result: result.seed)
        return first.mrr("valid", by) or 0.0, len(groups[key])

    best = max(sorted(groups), key=on_dev, default=None)
    if best is None:
        return None
    chosen = best_of_seeds(with_dev.get(best) or groups[best])
    return Group(tuple(chosen), chosen[0].epochs_of_recipe)


def _settings_key(result: Result) -> str:
    """A key that runs share if they differ only in seed and budget."""
    if result.kind == "ensemble":
        return result.name
    kept = {
        group: {name: value for name, value in values.items() if name not in BUDGET} for group, values in result.settings.items()
    }
    groups = (result.content.get(group, {}) for group in ("propagation", "rules"))
    walking = [{name: value for name, value in group.items() if name != "seed"} for group in groups]
    return f"{result.kind} {result.rewarded_by} {result.started_from} {kept} {walking}"


def _summary(view: ResultView) -> Table:
    """The MRR of every model on every data set: our better recipe, selected on dev, beside the paper's."""
    lines: dict[str, list[str]] = {}
    for data in view.scope.data_sets:
        best: dict[str, tuple[float, str]] = {}  # dev MRR, text
        for title, spec, by in runs_of_table_2(view.scope, data):
            group = view.group(spec)
            on_dev = group.mean("valid", by=by)
            if on_dev is None:
                on_dev = -0.5 if group.results else -1.0  # unfinished runs are shown before those that were not run
            text = view.group(spec, for_test=True).text("test", by=by)
            best[title] = max(best.get(title, (-2.0, "")), (on_dev, text), key=lambda pair: pair[0])
        for title, (_, text) in best.items():
            lines.setdefault(title, []).append(beside(text, TABLE_2[data][title][2]))
        of_best = best_of(view, data)
        for title in BEYOND:
            found = of_best.get(title)
            ours = NOT_RUN if found is None else found[0].text("test", by=found[1])
            quoted = TABLE_2_QUOTED[data].get(title)
            lines.setdefault(title, []).append(beside(ours, quoted[2] if quoted else None))
    columns = ("MRR", *(TITLES[data] for data in view.scope.data_sets))
    return Table(
        "Summary: the recipe that is better on dev",
        columns,
        tuple((title, *cells) for title, cells in lines.items()),
    )


def table_3(view: ResultView) -> Section:
    """The ablation on dev."""
    text = (
        "Dev MRR by the policy, in percent; the paper's numbers in brackets. Test facts are not filtered. −RS is without reward "
        "shaping, −AD without action dropout. The paper's walker is the recipe `paper` with ConvE; the other rows are ours."
    )
    return Section("table3", "Table 3: ablation", text, (_ablation_table(view, "valid", TABLE_3),))


def appendix_dev_complete(view: ResultView) -> Section:
    """The ablation on dev with the complete filter."""
    text = "As Table 3, with test facts filtered too."
    return Section(
        "appendix-dev-complete",
        "Appendix: dev with the complete filter",
        text,
        (_ablation_table(view, "valid_complete_filter", DEV_COMPLETE),),
    )


def _ablation_table(view: ResultView, split: str, papers: Mapping[str, Ablation]) -> Table:
    rows = []
    for family, (model, recipe, base) in ABLATIONS.items():
        for variant in VARIANTS:
            groups = {data: view.group(view.scope.variant(data, model, recipe, variant, base)) for data in view.scope.data_sets}
            if family != "paper, ConvE" and not any(group.results for group in groups.values()):
                continue
            cells = [beside(group.text(split), getattr(papers[data], _OF_VARIANT[variant])) for data, group in groups.items()]
            rows.append((f"{family}: {variant}", *cells))
    return Table("", ("walker", *(TITLES[data] for data in view.scope.data_sets)), tuple(rows))


def ablation_results(view: ResultView) -> list[Result]:
    """All runs of the ablation."""
    specs = (
        view.scope.variant(data, model, recipe, variant, base)
        for data in view.scope.data_sets
        for model, recipe, base in ABLATIONS.values()
        for variant in VARIANTS
    )
    found = {result.name: result for spec in specs for result in view.ledger.find(spec)}
    return list(found.values())


def table_4(view: ResultView) -> Section:
    """The ablation for to-many and to-one relations."""
    text = (
        "Dev MRR by the policy, by kind of relation, and the share of the queries, in percent; the paper's numbers in brackets."
    )
    return Section("table4", "Table 4: to-many and to-one", text, _strata_tables(view, ("to-many", "to-one"), TABLE_4))


def table_5(view: ResultView) -> Section:
    """The ablation for seen and unseen queries."""
    text = (
        "Dev MRR by the policy, for queries that have an answer in train (seen) and for others; the paper's numbers in brackets."
    )
    return Section("table5", "Table 5: seen and unseen", text, _strata_tables(view, ("seen", "unseen"), TABLE_5))


def _strata_tables(view: ResultView, strata: Sequence[str], papers: Mapping[str, Mapping[str, Stratum]]) -> tuple[Table, ...]:
    tables = []
    for family, (model, recipe, base) in ABLATIONS.items():
        rows, has_any = [], False
        for data in view.scope.data_sets:
            groups = {name: view.group(view.scope.variant(data, model, recipe, name, base)) for name in VARIANTS}
            has_any = has_any or any(group.results for group in groups.values())
            for stratum in strata:
                theirs = papers[data][stratum]
                cells = [_in_stratum(group, stratum, theirs, _OF_VARIANT[name]) for name, group in groups.items()]
                rows.append((TITLES[data], stratum, beside(_share(groups["whole"], stratum), theirs.share), *cells))
        if has_any or family == "paper, ConvE":
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
            "ConvE": (scope.scorer(data, "conve", "modern"), ""),
            "walker, ConvE": (scope.walker(data, "conve", "paper"), POLICY),
            "modern walker, ComplEx": (scope.walker(data, "complex", "modern"), POLICY),
        }
        cells = []
        for title, (spec, by) in runs.items():
            group = view.group(spec)
            count = f", {len(group.finished)} seed{'s' * (len(group.finished) > 1)}" if group.finished else ""
            theirs = papers.get(title)
            beside_it = f" ({theirs.mean:.1f} ± {theirs.deviation:.1f})" if theirs else ""
            cells.append(f"{group.text('test', by=by)}{count}{beside_it}")
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
