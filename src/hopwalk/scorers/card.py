"""The card of a scorer's run: what it is, how it was trained, what it reached, for people."""

from __future__ import annotations

from hopwalk.run import Run, write_text


def write_card(run: Run) -> None:
    """Write `card.md`, and `reliability.svg` where probabilities were measured."""
    about, settings = run.about, run.settings.scorer
    data = run.dataset
    lines = [
        f"# {settings.model} on {about['dataset']['name']}",
        "",
        f"A scorer f(head, relation, ·) trained by hopwalk {about['hopwalk']} on {len(data.facts):,} facts about {len(data.entities):,} "
        f"entities and {len(data.relations):,} relations, in both directions. Data fingerprint `{about['dataset']['fingerprint'][:16]}`.",
        "",
        "| | |",
        "|---|---|",
        f"| recipe | {settings.recipe}: {settings.loss} loss, {settings.optimizer} {settings.learning_rate:g} |",
        f"| dimension | {settings.dimension} |",
        f"| seed | {settings.seed} |",
        f"| status | {about['status']} after {about['epochs']} epochs ({about['seconds']:.0f} s of training); "
        f"best epoch {about['best_epoch']} |",
        f"| dev MRR (tails, filtered without test facts) | {_percent(about['valid_mrr'])} |",
    ]
    calibration, reliability = about["calibration"], about.get("reliability")
    of = "log softmax of the score" if calibration["is_relative"] else "score"
    lines.append(f"| probability | sigmoid({calibration['slope']:.4g} · {of} + {calibration['offset']:.4g}) |")
    if reliability:
        lines.append(f"| calibration error on dev | {reliability['error']:.5f}; ten likeliest: {reliability['top_error']:.4f} |")
    lines += ["", "All settings are in `settings.toml`, the course of training in `history.jsonl`. The scorer knows nothing but its",
              "data: what is missing or wrong there is missing or wrong in its scores.", ""]
    write_text(run.path / "card.md", "\n".join(lines))


def _percent(share: float | None) -> str:
    return "no dev questions" if share is None else f"{100 * share:.2f}"
