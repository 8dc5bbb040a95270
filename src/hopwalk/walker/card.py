"""The card of a walker's run: what it is, how it was trained, how good it is, for people."""

from __future__ import annotations

from typing import Any

from hopwalk.learning.run import Run
from hopwalk.scorers.card import probability_rows


def write_card(run: Run, about: dict[str, Any]) -> None:
    """Write `card.md`; `about` is the content of `run.json`."""
    data, settings = run.dataset, run.settings
    walker, mrr = settings.walker, about.get("valid_mrr")
    has_scorer = walker.reward_shaping
    rows = {
        "actions": "relation and entity" if walker.uses_entities else "relation only",
        "reward": "shaped by the scorer" if walker.reward_shaping else "1 at the answer, 0 elsewhere",
        "scorer": f"{_scorer_of(run)}, in the folder `scorer`" if has_scorer else "none",
        "walk": f"{settings.walk.hops} hops, fan-out {settings.graph.fan_out}, beam {settings.walk.beam}",
        "gradient": f"{walker.estimator}, {walker.rollouts} rollouts, action dropout {walker.action_dropout:g}, "
        f"entropy {walker.entropy:g}",
        "seed": f"{walker.seed}",
        **({"started from": f"the walker of {about['started_from']['folder']}"} if "started_from" in about else {}),
        "training": f"{about['status']} after {about.get('epochs', 0)} epochs, {about.get('seconds', 0):.0f} s; "
        f"best epoch {about.get('best_epoch', 0)}",
        "dev MRR (tails, filtered without test facts)": "no dev queries" if mrr is None else f"{100 * mrr:.2f}",
        "answers are ranked by": "the probability of the policy's paths, as in the paper; the scorer has no part in it",
        **probability_rows(about),
    }
    run.write_text(
        "card.md",
        f"# A walker on {data.name}\n\n"
        f"A policy that walks from the head of a query to its answers, made by hopwalk {about['hopwalk']} from "
        f"{len(data.facts):,} facts about {len(data.entities):,} entities and {len(data.relations):,} relations. "
        f"Data fingerprint: `{data.fingerprint[:16]}`.\n\n"
        "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows.items()) + "\n"
        "All settings are in `settings.toml`, the history of training in `history.jsonl`. Answers come from the graph: what is "
        "missing or wrong there is missing or wrong in the paths.\n",
    )


def _scorer_of(run: Run) -> str:
    """The name of the scorer, which need not be that of the settings if it was given."""
    scorer = Run.open(run.path / "scorer")
    return "an ensemble" if scorer.about["kind"] == "ensemble" else scorer.settings.scorer.model
