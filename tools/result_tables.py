"""The tables of results in README and docs, from the ledger in `results/`; `paper_page.py` fills them in.

A table stands between `<!-- results: NAME -->` and `<!-- end -->`. Names are `overview` (of scorers), the name of a scorer,
`candidates` and `walkers`. Each has what a reader needs; `results/` has every run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from benchmarks.machine import PROJECT

from hopwalk.paper.ledger import Ledger
from hopwalk.paper.parts import MEANINGS, Group, ResultView, beside
from hopwalk.paper.plan import SCORERS, Scope
from hopwalk.paper.published import TABLE_2, TABLE_2_QUOTED, TITLES
from hopwalk.paper.run_spec import NTP, SMALL
from hopwalk.paper.tables import DRUM, MODEL_TITLES, NEURAL_LP, NTP_LAMBDA, PROPAGATION, best_of
from hopwalk.utils.text import duration

RESULTS = PROJECT / "results"
PAPER = {  # test MRR of tails
    scorer: {data: numbers[MODEL_TITLES[scorer]][2] for data, numbers in TABLE_2.items()} for scorer in SCORERS
}
WALKERS_SHOWN = (("conve", "paper"), ("complex", "modern"), ("propagation", "modern"))  # scorer, recipe


def view() -> ResultView:
    """The ledger of the project, as the report reads it."""
    return ResultView(Ledger(RESULTS), Scope())


def best_recipe(known: ResultView, scorer: str, data: str) -> tuple[str, Group]:
    """The recipe of a scorer that is better on dev, and its runs."""
    specs = {recipe: known.scope.scorer(data, scorer, recipe) for recipe in ("modern", "paper")}
    specs["paper (first)"] = known.scope.first(specs["paper"])
    groups = {recipe: known.group(spec) for recipe, spec in specs.items()}
    return max(groups.items(), key=lambda item: item[1].mean("valid") or 0.0)


def overview_table() -> str:
    """Test MRR of tails of every scorer on every set, the paper's in brackets."""
    known = view()
    rows = [
        [MODEL_TITLES[scorer], *(beside(best_recipe(known, scorer, data)[1].text("test"), mrr) for data, mrr in papers.items())]
        for scorer, papers in PAPER.items()
    ]
    return _markdown(["test MRR", *(TITLES[data] for data in PAPER["complex"])], rows)


def scorer_table(scorer: str) -> str:
    """The numbers of one scorer on every set, by its better recipe."""
    known, rows = view(), []
    for data, papers in PAPER[scorer].items():
        recipe, group = best_recipe(known, scorer, data)
        contents = [result.content for result in group.finished]
        rows.append(
            [
                f"{TITLES[data]}, {recipe}",
                f"{len(contents)}",
                beside(group.text("test"), papers),
                f"{group.mean('test', 'hits@1'):.1f}",
                f"{group.mean('test', 'hits@10'):.1f}",
                f"{100 * np.mean([content['test']['both']['mrr'] for content in contents]):.1f}",
                f"{group.mean('valid'):.1f}",
                group.epochs,
                f"{group.seconds:,.0f}",
                f"{np.mean([content['reliability']['top_error'] for content in contents]):.3f}",
            ]
        )
    columns = ["data, recipe", "seeds", "MRR (paper)", "hits@1", "hits@10", "both", "dev MRR", "epochs", "seconds"]
    return _markdown([*columns, "calibration error"], rows)


def propagation_table() -> str:
    """The numbers of propagation on every set it was run on."""
    known, rows = view(), []
    for data in TITLES:
        group = best_of(known, data).get(PROPAGATION)
        if group is None:
            continue
        contents = [result.content for result in group.finished]
        walkers = max(numbers[2] for name, numbers in TABLE_2[data].items() if name.startswith("walker"))
        rows.append(
            [
                TITLES[data],
                f"{len(contents)}",
                beside(group.text("test"), walkers),
                f"{group.mean('test', 'hits@1'):.1f}",
                f"{group.mean('test', 'hits@10'):.1f}",
                f"{100 * np.mean([content['test']['both']['mrr'] for content in contents]):.1f}",
                f"{group.mean('valid'):.1f}",
                f"{contents[0]['propagation']['queries']:,}",
                f"{group.seconds:,.0f}",
            ]
        )
    columns = ["data", "seeds", "MRR (the paper's best walker)", "hits@1", "hits@10", "both", "dev MRR", "training queries"]
    return _markdown([*columns, "seconds, one thread"], rows)


def rules_table() -> str:
    """The numbers of NeuralLP and DRUM on every set they were run on."""
    known, rows = view(), []
    for title in (NEURAL_LP, DRUM):
        for data in TITLES:
            group = best_of(known, data).get(title)
            if group is None:
                continue
            contents, quoted = [result.content for result in group.finished], TABLE_2_QUOTED[data].get(title)
            rows.append(
                [
                    f"{title}, {TITLES[data]}",
                    f"{len(contents)}",
                    beside(group.text("test"), quoted[2] if quoted else None),
                    beside(f"{group.mean('test', 'hits@1'):.1f}", quoted[0] if quoted else None),
                    beside(f"{group.mean('test', 'hits@10'):.1f}", quoted[1] if quoted else None),
                    f"{100 * np.mean([content['test']['both']['mrr'] for content in contents]):.1f}",
                    f"{group.mean('valid'):.1f}",
                    f"{contents[0]['rules']['hops']}",
                    f"{contents[0]['rules']['queries']:,}",
                    f"{group.seconds:,.0f}",
                ]
            )
    columns = ["model, data", "seeds", "MRR (quoted)", "hits@1", "hits@10", "both", "dev MRR", "hops", "training queries"]
    return _markdown([*columns, "seconds, one thread"], rows)


def ntp_table() -> str:
    """The numbers of NTP-λ, by the prover alone and by the mean with ComplEx, and the bound that ties set."""
    known, rows = view(), []
    for data in SMALL:
        quoted = TABLE_2_QUOTED[data][NTP_LAMBDA]
        specs = {"prover": known.scope.scorer(data, NTP, "modern"), "mean with ComplEx": known.scope.ntp_with_complex(data)}
        for title, spec in specs.items():
            group = known.group(spec)
            if not group.finished:
                continue
            rows.append(
                [
                    f"{TITLES[data]}, {title}",
                    f"{len(group.finished)}",
                    beside(group.text("test"), quoted[2]),
                    f"{group.mean('test', 'mrr_optimistic'):.1f}",
                    beside(f"{group.mean('test', 'hits@1'):.1f}", quoted[0]),
                    beside(f"{group.mean('test', 'hits@10'):.1f}", quoted[1]),
                    f"{group.mean('valid'):.1f}",
                    group.epochs,
                    f"{group.seconds:,.0f}",
                ]
            )
    columns = ["data, ranked by", "seeds", "MRR (quoted)", "answer first among equals", "hits@1", "hits@10", "dev MRR", "epochs"]
    return _markdown([*columns, "seconds, one thread"], rows)


def candidates_table() -> str:
    """The effect of sampled tails: runs that are named after it, with few dimensions and epochs."""
    found = [result for result in view().ledger.results if "-candidates-" in result.name]
    rows = []
    for result in sorted(found, key=lambda result: result.own["num_sampled_tails"] or 10**9):
        sampled = result.own["num_sampled_tails"]
        numbers = [f"{result.mrr(split):.1f}" for split in ("valid", "test")]
        rows.append([f"{sampled:,}" if sampled else "all", *numbers, f"{result.seconds:.0f}"])
    return _markdown(["sampled tails", "dev MRR", "test MRR", "seconds"], rows)


def walkers_table() -> str:
    """Test MRR of tails by the policy: the paper's recipe and ours on every set, beside the paper's best walker."""
    known, rows = view(), []
    for data, published in TABLE_2.items():
        best = max(numbers[2] for model, numbers in published.items() if model.startswith("walker"))
        for scorer, recipe in WALKERS_SHOWN:
            group = known.group(known.scope.walker(data, scorer, recipe))
            if not group.finished:
                continue
            rows.append(
                [
                    f"{TITLES[data]}, {recipe}, {MODEL_TITLES.get(scorer, scorer)}",
                    beside(group.text("test"), best),
                    f"{group.mean('test', 'hits@1'):.1f}",
                    f"{group.mean('test', 'hits@10'):.1f}",
                    f"{group.mean('test', 'unreached'):.1f} %",
                    group.epochs,
                    duration(group.seconds),
                ]
            )
    columns = ["data, recipe, scorer", "MRR (paper's best)", "hits@1", "hits@10", "unreached", "epochs", "training"]
    return _markdown(columns, rows)


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text, and what its marks mean."""
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}", *(f"| {' | '.join(row)} |" for row in rows)]
    notes = [f"{mark} {meaning}." for mark, meaning in MEANINGS.items() if any(mark in cell for row in rows for cell in row)]
    return "\n\n".join(["\n".join(lines), *notes])


def with_tables(page: str) -> str:
    """The text of a page with its tables of results filled in."""
    makers = {"overview": overview_table, "candidates": candidates_table, "walkers": walkers_table}
    makers |= {"propagation": propagation_table, "rules": rules_table, "ntp": ntp_table}

    def table(mark: re.Match[str]) -> str:
        name = mark["name"]
        made = makers[name]() if name in makers else scorer_table(name)
        return f"<!-- results: {name} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- results: (?P<name>\w+) -->.*?<!-- end -->", table, page, flags=re.DOTALL)
