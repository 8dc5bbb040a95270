"""Folding of stated inverses: a fact that a file has in both directions (`r` and `r_inv`) is read once.

The graph adds inverses itself. Kept apart, they would double every edge and reveal held-out answers: (t, r_inv, h) in training
answers (h, r, ?).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from hopwalk.data.findings import Finding
from hopwalk.utils.text import counted

PREFIXES = ("_", "inverse_", "inv_", "reverse_")
SUFFIXES = ("_inv", "_inverse", "_reverse", "_reversed", "^-1", "⁻¹")
CONFIRMED_SHARE = 0.5  # of the facts of `r_inv` must be inverses of facts of `r`; not every held-out fact may have its inverse


def fold_inverse_relations(frames: Mapping[str, pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], list[Finding]]:
    """The facts with those of inverse relations inverted; a relation is inverse if its name and its facts say so."""
    folded, pairs, count = dict(frames), dict[str, str](), 0
    while confirmed := _confirmed_inverses(folded):
        is_inverse = pl.col("relation").is_in(list(confirmed))
        count += sum(frame.select(is_inverse.sum()).item() for frame in folded.values())
        folded = {split: _inverted(frame, confirmed) for split, frame in folded.items()}
        pairs |= confirmed
    if not pairs:
        return folded, []
    examples = tuple(f"{inverse} → {base}" for inverse, base in sorted(pairs.items())[:3])
    message = f"facts of {counted(len(pairs), 'inverse relation')} read as facts of the relations they invert: {count:,}"
    remedy = "The graph adds all inverses itself. To keep them apart, set read.fold_inverses = false."
    return folded, [Finding("note", "inverse-relations-folded", message, count, examples, remedy)]


def _inverted(frame: pl.DataFrame, confirmed: Mapping[str, str]) -> pl.DataFrame:
    """The facts with those of the inverse relations inverted, without duplicates of other facts."""
    is_inverse = pl.col("relation").is_in(list(confirmed))
    kept = frame.filter(~is_inverse)
    inverted = frame.filter(is_inverse).select(head="tail", relation=pl.col("relation").replace(confirmed), tail="head")
    return pl.concat([kept, inverted.join(kept, on=["head", "relation", "tail"], how="anti")])


def _confirmed_inverses(frames: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """The inverse relations by their names and their facts, each with the relation it inverts."""
    bases = named_inverses({label for frame in frames.values() for label in frame.get_column("relation").unique()})
    return _confirmed(frames, bases) if bases else {}


def named_inverses(labels: set[str]) -> dict[str, str]:
    """The inverse relations by their names alone, each with the relation it inverts: `r_inv` and `_r` if there is an `r`."""
    bases = {inverse: base for inverse in labels if (base := _base(inverse, labels))}
    return {inverse: base for inverse, base in bases.items() if base not in bases}


def _base(label: str, labels: set[str]) -> str | None:
    """The relation of which `label` is the inverse by its name, or None."""
    candidates: Iterable[str] = (
        *(label.removeprefix(prefix) for prefix in PREFIXES if label.startswith(prefix)),
        *(label.removesuffix(suffix) for suffix in SUFFIXES if label.endswith(suffix)),
    )
    return next((base for base in candidates if base in labels), None)


def _confirmed(frames: Mapping[str, pl.DataFrame], bases: dict[str, str]) -> dict[str, str]:
    """The inverse relations most of whose facts, inverted, are facts of their base."""
    involved = pl.col("relation").is_in([*bases, *bases.values()])
    facts = pl.concat([frame.filter(involved) for frame in frames.values()]).unique()
    inverse_facts = facts.filter(pl.col("relation").is_in(list(bases)))
    inverted = inverse_facts.select(inverse="relation", head="tail", tail="head", relation=pl.col("relation").replace(bases))
    repeated = inverted.join(facts, on=["head", "relation", "tail"], how="semi")
    num_given = dict(inverse_facts.group_by("relation").len().iter_rows())
    num_repeated = dict(repeated.group_by("inverse").len().iter_rows())
    return {
        inverse: base for inverse, base in bases.items() if num_repeated.get(inverse, 0) >= CONFIRMED_SHARE * num_given[inverse]
    }
