"""Facts that a file states twice, once in each direction (`r` and `r_inv`), are read as one: the graph adds inverses itself.

Kept apart, they would double every edge and give away held-out answers: (t, r_inv, h) in training answers (h, r, ?).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from hopwalk.data.findings import Finding
from hopwalk.utils.text import counted

PREFIXES = ("_", "inverse_", "inv_", "reverse_")
SUFFIXES = ("_inv", "_inverse", "_reverse", "_reversed", "^-1", "⁻¹")
CONFIRMED_SHARE = 0.5  # of the facts of `r_inv` must repeat facts of `r`; held-out facts may lack their other half


def fold_inverse_relations(frames: Mapping[str, pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], list[Finding]]:
    """The same facts with those of stated inverse relations turned round; names and facts decide which ones are inverse."""
    folded, pairs, count = dict(frames), dict[str, str](), 0
    while confirmed := _confirmed_inverses(folded):
        is_inverse = pl.col("relation").is_in(list(confirmed))
        count += sum(frame.select(is_inverse.sum()).item() for frame in folded.values())
        folded = {split: _turned(frame, confirmed) for split, frame in folded.items()}
        pairs |= confirmed
    if not pairs:
        return folded, []
    examples = tuple(f"{inverse} → {base}" for inverse, base in sorted(pairs.items())[:3])
    message = f"facts of {counted(len(pairs), 'inverse relation')} read as facts of the relations they invert: {count:,}"
    remedy = "The graph adds all inverses itself. Keep them apart with --set read.fold_inverses=false."
    return folded, [Finding("note", "inverse-relations-folded", message, count, examples, remedy)]


def _turned(frame: pl.DataFrame, confirmed: Mapping[str, str]) -> pl.DataFrame:
    """The facts of the inverse relations turned round, where that does not repeat a fact."""
    is_inverse = pl.col("relation").is_in(list(confirmed))
    kept = frame.filter(~is_inverse)
    turned = frame.filter(is_inverse).select(head="tail", relation=pl.col("relation").replace(confirmed), tail="head")
    return pl.concat([kept, turned.join(kept, on=["head", "relation", "tail"], how="anti")])


def _confirmed_inverses(frames: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """The relations that are inverse to another, which they name, by their names and their facts."""
    bases = named_inverses({label for frame in frames.values() for label in frame.get_column("relation").unique()})
    return _confirmed(frames, bases) if bases else {}


def named_inverses(labels: set[str]) -> dict[str, str]:
    """The relations that by their names are inverse to another: `r_inv` and `_r` to `r`, if there is an `r`."""
    bases = {inverse: base for inverse in labels if (base := _base(inverse, labels))}
    return {inverse: base for inverse, base in bases.items() if base not in bases}


def _base(label: str, labels: set[str]) -> str | None:
    """The relation whose name says that `label` is its inverse."""
    candidates: Iterable[str] = (
        *(label.removeprefix(prefix) for prefix in PREFIXES if label.startswith(prefix)),
        *(label.removesuffix(suffix) for suffix in SUFFIXES if label.endswith(suffix)),
    )
    return next((base for base in candidates if base in labels), None)


def _confirmed(frames: Mapping[str, pl.DataFrame], bases: dict[str, str]) -> dict[str, str]:
    """Those whose facts, turned round, mostly are facts of their base."""
    involved = pl.col("relation").is_in([*bases, *bases.values()])
    facts = pl.concat([frame.filter(involved) for frame in frames.values()]).unique()
    inverse_facts = facts.filter(pl.col("relation").is_in(list(bases)))
    turned = inverse_facts.select(inverse="relation", head="tail", tail="head", relation=pl.col("relation").replace(bases))
    repeated = turned.join(facts, on=["head", "relation", "tail"], how="semi")
    num_given = dict(inverse_facts.group_by("relation").len().iter_rows())
    num_repeated = dict(repeated.group_by("inverse").len().iter_rows())
    return {
        inverse: base for inverse, base in bases.items() if num_repeated.get(inverse, 0) >= CONFIRMED_SHARE * num_given[inverse]
    }
