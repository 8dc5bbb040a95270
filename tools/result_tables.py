"""The tables of results in README and docs, from the files in `results/`; `paper_page.py` fills them in.

A table stands between `<!-- results: NAME -->` and `<!-- end -->`. Names are `overview` (of scorers), the name of a scorer,
`candidates`, `walkers` and `losses`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from benchmarks.machine import PROJECT

from hopwalk.paper.ledger import Ledger
from hopwalk.paper.parts import ResultView, spread
from hopwalk.paper.plan import Scope
from hopwalk.paper.published import TABLE_2
from hopwalk.paper.tables import MODEL_TITLES

RESULTS = PROJECT / "results"
SCORERS, WALKERS = (RESULTS / kind for kind in ("scorers", "walkers"))
PAPER = {  # test MRR of tails
    scorer: {data: numbers[title][2] for data, numbers in TABLE_2.items()} for scorer, title in MODEL_TITLES.items()
}


def view() -> ResultView:
    """The ledger of the project, as the report reads it."""
    return ResultView(Ledger(RESULTS), Scope())


def results_by_run() -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The results of runs by nothing but their recipe, by scorer, data set and recipe; one for each seed."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in sorted(SCORERS.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        settings, data = result["settings"], result["data"]["name"]
        if result["name"] == "-".join([data, settings["model"], settings["recipe"], str(settings["seed"])]):
            found.setdefault((settings["model"], data, settings["recipe"]), []).append(result)
    return found


def overview_table() -> str:
    """Test MRR of tails of every scorer and recipe on every set, the paper's in brackets."""
    found = results_by_run()
    recipes = sorted({(scorer, recipe) for scorer, _, recipe in found})
    data_sets = list(PAPER["complex"])
    lines = [f"| scorer, recipe | {' | '.join(data_sets)} |", f"|---|{'---:|' * len(data_sets)}"]
    for scorer, recipe in recipes:
        cells = []
        for data in data_sets:
            results = found.get((scorer, data, recipe))
            cells.append(f"{_mean(results, 'tails', 'mrr'):.1f} ({PAPER[scorer][data]})" if results else "")
        lines.append(f"| {scorer}, {recipe} | {' | '.join(cells)} |")
    return "\n".join(lines)


def scorer_table(scorer: str) -> str:
    """The numbers of one scorer on every set."""
    lines = [
        "| data, recipe | seeds | MRR | paper | hits@1 | hits@10 | both ways | dev MRR | epochs | seconds | calibration error |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    found = results_by_run()
    for data in PAPER[scorer]:
        for recipe in ("modern", "paper"):
            results = found.get((scorer, data, recipe))
            if not results:
                continue
            mrrs = [100 * result["test"]["tails"]["mrr"] for result in results]
            cells = [
                f"{data}, {recipe}",
                f"{len(results)}",
                spread(mrrs),
                f"{PAPER[scorer][data]}",
                f"{_mean(results, 'tails', 'hits@1'):.1f}",
                f"{_mean(results, 'tails', 'hits@10'):.1f}",
                f"{_mean(results, 'both', 'mrr'):.1f}",
                f"{np.mean([100 * result['valid']['tails']['mrr'] for result in results]):.1f}",
                f"{np.mean([result['best_epoch'] for result in results]):.0f}",
                f"{np.mean([result['training_seconds'] for result in results]):.0f}",
                f"{np.mean([result['reliability']['top_error'] for result in results]):.3f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(results: list[dict[str, Any]], direction: str, metric: str) -> float:
    return 100 * float(np.mean([result["test"][direction][metric] for result in results]))


def candidates_table() -> str:
    """What sampling candidates does: runs that are named after it, with few dimensions and epochs."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in SCORERS.glob("*-candidates-*.json")]
    lines = ["| data | candidates | dev MRR | test MRR | seconds |", "|---|---:|---:|---:|---:|"]
    for result in sorted(found, key=lambda result: (result["data"]["name"], result["settings"]["candidates"] or 10**9)):
        candidates = result["settings"]["candidates"]
        lines.append(
            f"| {result['data']['name']} | {f'{candidates:,}' if candidates else 'all'} "
            f"| {100 * result['valid']['tails']['mrr']:.1f} | {100 * result['test']['tails']['mrr']:.1f} "
            f"| {result['training_seconds']:.0f} |"
        )
    return "\n".join(lines)


def walkers_table() -> str:
    """Test MRR of tails of walkers on every set: paths by probability, and by reward too, the scorer alone, and the blend."""
    lines = [
        "| data, walker | scorer | seeds | paths by probability | and reward | paper's best walker | scorer alone | blend "
        "| unreached | epochs | seconds |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in sorted(WALKERS.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        groups.setdefault((result["data"]["name"], result["name"].rpartition("-")[0]), []).append(result)
    order = list(TABLE_2)
    for (data, name), group in sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        scorer, has_reward = group[0]["scorer"], "probability" in group[0]["test"]
        best = max(numbers[2] for model, numbers in TABLE_2[data].items() if model.startswith("walker"))
        cells = [
            f"{data}, {name.removeprefix(f'{data}-')}",
            "-" if scorer is None else "ensemble" if scorer["kind"] == "ensemble" else scorer["settings"]["model"],
            f"{len(group)}",
            mrr_by(group, "probability" if has_reward else "paths"),
            mrr_by(group, "paths") if has_reward else "-",
            f"{best}",
            *(mrr_by(group, by) if scorer else "-" for by in ("scorer", "blend")),
            f"{100 * np.mean([result['test']['paths']['tails']['unreached'] for result in group]):.1f} %",
            f"{np.mean([result['epochs'] for result in group]):.0f}",
            f"{np.mean([result['training_seconds'] for result in group]):,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def mrr_by(group: Sequence[Mapping[str, Any]], by: str) -> str:
    """Test MRR of tails of some runs, ranked in one of the ways."""
    return spread([100 * result["test"][by]["tails"]["mrr"] for result in group])


def losses_table() -> str:
    """Where paths lose to the scorer that guides them: test MRR of tails by stratum, of walkers by the modern recipe."""
    strata = ("to-many", "to-one", "seen", "unseen")
    lines = [
        "| paths / scorer | unreached | " + " | ".join(strata) + " |",
        "|---|---:" + "|---:" * len(strata) + "|",
    ]
    known = view()
    for data in TABLE_2:
        if not (results := known.group(known.scope.walker(data, "complex", "modern")).finished):
            continue
        test = results[0].content["test"]
        cells = []
        for stratum in strata:
            found = [test[by]["strata"].get(stratum) for by in ("paths", "scorer")]
            is_known = all(part and part["num_queries"] >= 10 for part in found)
            cells.append(" / ".join(f"{100 * part['mrr']:.1f}" for part in found) if is_known else "")
        lines.append(f"| {data} | {100 * test['paths']['tails']['unreached']:.1f} % | {' | '.join(cells)} |")
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """The text of a page with its tables of results as they are now."""
    makers = {"overview": overview_table, "candidates": candidates_table, "walkers": walkers_table, "losses": losses_table}

    def table(mark: re.Match[str]) -> str:
        name = mark["name"]
        made = makers[name]() if name in makers else scorer_table(name)
        return f"<!-- results: {name} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- results: (?P<name>\w+) -->.*?<!-- end -->", table, page, flags=re.DOTALL)
