"""The card of a walker's run: what it is, how it was trained, what it reached, for people."""

from __future__ import annotations

from typing import Any

from hopwalk.learning.run import Run, write_text


def write_card(run: Run, about: dict[str, Any]) -> None:
    """Write `card.md`; `about` is what `run.json` is to say."""
    data, settings = run.dataset, run.settings
    walker, mrr = settings.walker, about.get("valid_mrr")
    guided = (
        f"guided: the scorer's opinion of an entity counts on the last hop (weight {walker.guidance:g} at first, then learnt)"
    )
    scorer = f"{_scorer_of(run)}, in the folder `scorer`" if walker.reward_shaping or walker.guidance else "none"
    rows = {
        "policy": guided if walker.guidance else "the paper's: the scorer has no part in the walk",
        "edges are known by": "relation and entity" if walker.uses_entities else "relation only",
        "reward": "shaped by the scorer" if walker.reward_shaping else "1 for the answer, else 0",
        "scorer": scorer,
        "walk": f"{settings.walk.hops} hops, fan-out {settings.graph.fan_out}, beam {settings.walk.beam}",
        "gradient": f"{walker.estimator} over {walker.rollouts} rollouts, action dropout {walker.action_dropout:g}, "
        f"entropy {walker.entropy:g}",
        "seed": f"{walker.seed}",
        **({"begun with": f"the walker of {about['started_from']['folder']}"} if "started_from" in about else {}),
        "training": f"{about['status']} after {about.get('epochs', 0)} epochs, {about.get('seconds', 0):.0f} s; "
        f"the best was epoch {about.get('best_epoch', 0)}",
        "paths are ranked by": f"probability, and the scorer's of their end to the power {walker.reward_weight:g}"
        if walker.reward_weight and scorer != "none"
        else "probability",
        "dev MRR by paths (tails, filtered without test facts)": "no dev questions" if mrr is None else f"{100 * mrr:.2f}",
    }
    if about.get("blend_weight") is not None:
        is_said = walker.blend_weight >= 0
        why = "as set" if is_said else "chosen on dev" if "valid_mrr_by" in about else "without dev questions to choose it on"
        rows["weight of paths in the blend"] = f"{about['blend_weight']:g}, {why}"
    write_text(
        run.path / "card.md",
        f"# A walker on {data.name}\n\n"
        f"A policy that walks from the head of a question to its answers, made by hopwalk {about['hopwalk']} from "
        f"{len(data.facts):,} facts about {len(data.entities):,} entities and {len(data.relations):,} relations. "
        f"Data fingerprint: `{data.fingerprint[:16]}`.\n\n"
        "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows.items()) + "\n"
        "All settings are in `settings.toml`, the course of training in `history.jsonl`. Answers come from the graph it was "
        "given: what is missing or wrong there is missing or wrong in its paths.\n",
    )


def _scorer_of(run: Run) -> str:
    """What the scorer is called: one that was given need not be that of the settings."""
    scorer = Run.open(run.path / "scorer")
    return "an ensemble" if scorer.about["kind"] == "ensemble" else scorer.settings.scorer.model
