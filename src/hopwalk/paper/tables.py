"""The paper's tables from the ledger, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hopwalk.config.settings import load_settings
from hopwalk.paper.ledger import Result, best_of_seeds
from hopwalk.paper.parts import NOT_RUN, Book, Group, Section, Table, beside
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
from hopwalk.paper.run_spec import BUDGET, NOBODY, SMALL, Wanted
from hopwalk.utils.durations import duration
from hopwalk.walker.decoding import BLEND, PATHS, PROBABILITY

BEYOND = {  # ours beyond the paper: title → kinds of runs, how walkers are ranked
    "best scorer": (("scorer", "ensemble"), ""),
    "best walker, paths by probability": (("walker",), PROBABILITY),
    "best walker, paths by probability and reward": (("walker",), PATHS),
    "best blend": (("walker",), BLEND),
}
MODEL_TITLES = {"distmult": "DistMult", "complex": "ComplEx", "conve": "ConvE"}
ABLATIONS = {  # whose parts are taken away: title → scorer, recipe, changes
    "paper, ConvE": ("conve", "paper", ()),
    "paper, ComplEx": ("complex", "paper", ()),
    "modern, not guided, ComplEx": ("complex", "modern", UNGUIDED),
}
_OF_VARIANT = {"whole": "whole", "−RS": "no_rs", "−AD": "no_ad"}


def table_1(book: Book) -> Section:
    """The data sets."""
    rows = []
    for data in book.scope.data_sets:
        counts, papers = book.ledger.data.get(data), TABLE_1[data]
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
    columns = ("", "entities", "relations", "facts to walk", "mean degree", "median degree")
    text = (
        "What is in the files; the paper's counts in brackets. Degrees count the facts that an entity is the head of. For "
        "NELL-995 the paper counts all facts, and degrees both ways; the facts to walk leave out what is held back for dev and "
        "test."
    )
    return Section("table1", "Table 1: data sets", text, (Table("", columns, tuple(rows)),))


def table_2(book: Book) -> Section:
    """All models on all sets."""
    tables = [_summary(book)] + [_models_on(book, data) for data in book.scope.data_sets]
    text = (
        "Test, questions for tails, in percent; the paper's in brackets. *Recipe* says how a model was trained: `paper` as the "
        "paper does, `modern` as we would. NeuralLP, NTP-λ and MINERVA are quoted by the paper from Das et al. (2018); the "
        "first two we have not run, and they stand here as quoted. *Best* rows are chosen among all runs of the ledger by "
        "their dev MRR. The paper ranks paths by their probability; walkers of the recipe `modern` count the reward of their "
        "ends too, and *best* has a row for either. That and the blend of paths and scorer are not in the paper. Standard "
        "deviations are those over seeds."
    )
    return Section("table2", "Table 2: all models", text, tuple(tables))


def runs_of_table_2(scope: Scope, data: str) -> Iterator[tuple[str, Wanted, str]]:
    """The paper's name of each model, the runs of a recipe of ours for it, and what they are ranked by."""
    for model in SCORERS:
        yield from ((MODEL_TITLES[model], scope.scorer(data, model, recipe), "") for recipe in ("paper", "modern"))
    yield "MINERVA", scope.walker(data, NOBODY, "minerva"), "paths"
    for model in ("complex", "conve"):
        title = f"walker, {MODEL_TITLES[model]}"
        yield from ((title, scope.walker(data, model, recipe), "paths") for recipe in ("paper", "modern"))


def _models_on(book: Book, data: str) -> Table:
    rows = []
    for title, wanted, by in runs_of_table_2(book.scope, data):
        group = book.group(wanted, for_test=True)
        is_planned = wanted.recipe != "paper" or by or data in SMALL
        if group.results or (is_planned and (title, wanted.recipe) != ("walker, ConvE", "modern")):
            rows.append(_row(title, wanted.recipe, group, by, TABLE_2[data][title]))
    for title, numbers in TABLE_2_QUOTED[data].items():
        rows.append((f"{title}, quoted", "", "", *(f"({number:.1f})" for number in numbers), "", "", "", ""))
    for title, (group, by) in best_of(book, data).items():
        first = group.finished[0]
        name = (first.name if first.kind == "ensemble" else first.name.rpartition("-")[0]).removeprefix(f"{data}-")
        rows.append(_row(title, name, group, by, None))
    columns = ("model", "recipe", "seeds", "hits@1", "hits@10", "MRR", "difference", "unreached", "epochs", "training")
    return Table(TITLES[data], columns, tuple(rows), num_text=2)


def _row(title: str, recipe: str, group: Group, by: str, papers: tuple[float, float, float] | None) -> tuple[str, ...]:
    hits_1, hits_10, mrr = papers or (None, None, None)
    mean = group.mean("test", by=by)
    unreached = group.mean("test", "unreached", by) if by in (PATHS, PROBABILITY) else None
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


def best_of(book: Book, data: str) -> dict[str, tuple[Group, str]]:
    """Ours beyond the paper, by title, as dev says."""
    found = {title: (_best(book, data, kinds, by), by) for title, (kinds, by) in BEYOND.items()}
    return {title: (group, by) for title, (group, by) in found.items() if group is not None}


def _best(book: Book, data: str, kinds: Sequence[str], by: str) -> Group | None:
    """The runs of the same settings of which the first seed is the best on dev; those that have learnt dev too, if there are."""
    groups: dict[str, list[Result]] = {}
    last: dict[str, list[Result]] = {}
    for result in book.ledger.results:
        is_ranked_so = result.mrr("test", by) is not None and (result.has_reward or by != PATHS)
        if result.is_finished and result.data == data and result.kind in kinds and is_ranked_so:
            (last if result.has_learnt_dev else groups).setdefault(_settings_key(result), []).append(result)

    def on_dev(key: str) -> tuple[float, int]:
        """By the first seed, which all have, not by a mean over however many there are; among equals, who has more."""
        first = min(groups[key], key=lambda result: result.seed)
        return first.mrr("valid", by) or 0.0, len(groups[key])

    best = max(sorted(groups), key=on_dev, default=None)
    if best is None:
        return None
    chosen = best_of_seeds(last.get(best) or groups[best])
    return Group(tuple(chosen), chosen[0].epochs_of_recipe)


def _settings_key(result: Result) -> str:
    """The same for runs that differ in seed and budget only."""
    if result.kind == "ensemble":
        return result.name
    kept = {
        group: {name: value for name, value in values.items() if name not in BUDGET} for group, values in result.settings.items()
    }
    return f"{result.kind} {result.rewarded_by} {result.started_from} {kept}"


def _summary(book: Book) -> Table:
    """MRR of every model on every set: our better recipe beside the paper's number."""
    lines: dict[str, list[str]] = {}
    for data in book.scope.data_sets:
        best: dict[str, tuple[float, str]] = {}  # as dev says
        for title, wanted, by in runs_of_table_2(book.scope, data):
            group = book.group(wanted)
            on_dev = group.mean("valid", by=by)
            if on_dev is None:
                on_dev = -0.5 if group.results else -1.0  # what has begun is shown before what has not
            text = book.group(wanted, for_test=True).text("test", by=by)
            best[title] = max(best.get(title, (-2.0, "")), (on_dev, text), key=lambda pair: pair[0])
        for title, (_, text) in best.items():
            lines.setdefault(title, []).append(beside(text, TABLE_2[data][title][2]))
        of_best = best_of(book, data)
        for title in BEYOND:
            found = of_best.get(title)
            lines.setdefault(title, []).append(NOT_RUN if found is None else found[0].text("test", by=found[1]))
    columns = ("MRR", *(TITLES[data] for data in book.scope.data_sets))
    return Table(
        "In short: of our recipes the one that is better on dev",
        columns,
        tuple((title, *cells) for title, cells in lines.items()),
    )


def table_3(book: Book) -> Section:
    """The ablation on dev."""
    text = (
        "MRR by paths on dev, test facts unknown, in percent; the paper's in brackets. −RS is without reward shaping, −AD "
        "without action dropout. The paper's walker is the recipe `paper` with ConvE; other rows are there where we have run "
        "them."
    )
    return Section("table3", "Table 3: ablation", text, (_ablation_table(book, "valid", TABLE_3),))


def appendix_dev_complete(book: Book) -> Section:
    """The ablation on dev, ranked with the complete graph."""
    text = "As Table 3, with test facts left out of the ranking too."
    return Section(
        "appendix-dev-complete",
        "Appendix: dev with the complete graph",
        text,
        (_ablation_table(book, "valid_complete_filter", DEV_COMPLETE),),
    )


def _ablation_table(book: Book, split: str, papers: Mapping[str, Ablation]) -> Table:
    rows = []
    for family, (model, recipe, base) in ABLATIONS.items():
        for variant in VARIANTS:
            groups = {data: book.group(book.scope.variant(data, model, recipe, variant, base)) for data in book.scope.data_sets}
            if family != "paper, ConvE" and not any(group.results for group in groups.values()):
                continue
            cells = [beside(group.text(split), getattr(papers[data], _OF_VARIANT[variant])) for data, group in groups.items()]
            rows.append((f"{family}: {variant}", *cells))
    return Table("", ("walker", *(TITLES[data] for data in book.scope.data_sets)), tuple(rows))


def ablation_results(book: Book) -> list[Result]:
    """All runs that the ablation looks at."""
    wanted = (
        book.scope.variant(data, model, recipe, variant, base)
        for data in book.scope.data_sets
        for model, recipe, base in ABLATIONS.values()
        for variant in VARIANTS
    )
    found = {result.name: result for run in wanted for result in book.ledger.find(run)}
    return list(found.values())


def table_4(book: Book) -> Section:
    """The ablation for to-many and to-one relations."""
    text = "MRR by paths on dev by kind of relation, in percent, and the share of the questions; the paper's in brackets."
    return Section("table4", "Table 4: to-many and to-one", text, _strata_tables(book, ("to-many", "to-one"), TABLE_4))


def table_5(book: Book) -> Section:
    """The ablation for seen and unseen questions."""
    text = "MRR by paths on dev for questions of which training knows an answer, and for others; the paper's in brackets."
    return Section("table5", "Table 5: seen and unseen", text, _strata_tables(book, ("seen", "unseen"), TABLE_5))


def _strata_tables(book: Book, strata: Sequence[str], papers: Mapping[str, Mapping[str, Stratum]]) -> tuple[Table, ...]:
    tables = []
    for family, (model, recipe, base) in ABLATIONS.items():
        rows, has_any = [], False
        for data in book.scope.data_sets:
            groups = {name: book.group(book.scope.variant(data, model, recipe, name, base)) for name in VARIANTS}
            has_any = has_any or any(group.results for group in groups.values())
            for stratum in strata:
                theirs = papers[data][stratum]
                cells = [_in_stratum(group, stratum, theirs, _OF_VARIANT[name]) for name, group in groups.items()]
                rows.append((TITLES[data], stratum, beside(_share(groups["whole"], stratum), theirs.share), *cells))
        if has_any or family == "paper, ConvE":
            tables.append(Table(f"Recipe {family}", ("", "questions", "share", *VARIANTS), tuple(rows), num_text=2))
    return tuple(tables)


def _in_stratum(group: Group, stratum: str, papers: Stratum, variant: str) -> str:
    ours = group.text("valid", stratum=stratum)
    return beside(ours, None if papers.mrr is None else getattr(papers.mrr, variant))


def _share(group: Group, stratum: str) -> str:
    for result in group.finished:
        numbers = result.numbers("valid")
        if numbers:
            return f"{100 * numbers['strata'][stratum]['num_questions'] / numbers['tails']['num_questions']:.1f}"
    return "–"


def appendix_seeds(book: Book) -> Section:
    """Mean and deviation over seeds."""
    rows = []
    for data in book.scope.data_sets:
        scope, papers = book.scope, FIVE_SEEDS[data]
        runs = {
            "ConvE": (scope.scorer(data, "conve", "modern"), ""),
            "walker, ConvE": (scope.walker(data, "conve", "paper"), "paths"),
            "modern walker, ComplEx": (scope.walker(data, "complex", "modern"), "paths"),
        }
        cells = []
        for title, (wanted, by) in runs.items():
            group = book.group(wanted)
            count = f", {len(group.finished)} seed{'s' * (len(group.finished) > 1)}" if group.finished else ""
            theirs = papers.get(title)
            beside_it = f" ({theirs.mean:.1f} ± {theirs.deviation:.1f})" if theirs else ""
            cells.append(f"{group.text('test', by=by)}{count}{beside_it}")
        rows.append((TITLES[data], *cells))
    columns = ("", "ConvE, recipe modern", "walker, ConvE, recipe paper", "walker, ComplEx, recipe modern")
    text = "Test MRR, mean and standard deviation over seeds, in percent; the paper's, over five seeds, in brackets."
    return Section("appendix-seeds", "Appendix: seeds", text, (Table("", columns, tuple(rows)),))


def rates_table(book: Book) -> Table:
    """Rates of action dropout, by how many edges lead on from an entity."""
    rows = []
    by_degree = sorted(book.scope.data_sets, key=lambda data: -TABLE_1[data].mean_degree)
    for data in by_degree:
        swept = {rate: book.group(book.scope.swept(data, rate)).mean("valid") for rate in book.scope.rates(data)}
        known = {rate: mrr for rate, mrr in swept.items() if mrr is not None}
        best = max(known, key=lambda rate: known[rate]) if len(known) > 1 else None
        tried = ", ".join(f"{rate:g}: {mrr:.1f}" for rate, mrr in known.items())
        ours = load_settings(data).walker.action_dropout
        shown = NOT_RUN if best is None else f"{best:g}"
        rows.append((TITLES[data], f"{TABLE_1[data].mean_degree:.2f}", f"{ACTION_DROPOUT[data]:g}", f"{ours:g}", shown, tried))
    columns = ("", "mean degree (paper)", "paper", "recipe modern", "best of the sweep", "dev MRR by rate")
    return Table("", columns, tuple(rows))
