"""The doctor: what is worth knowing about a data set before training on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.findings import Finding, Level
from hopwalk.data.graph import Graph, build_graph
from hopwalk.data.reachability import reached
from hopwalk.data.statistics import Statistics, statistics
from hopwalk.data.triples import Triples
from hopwalk.utils.text import counted

MOST_FACTS_COMPARED = 2_000_000
MOST_QUERIES_WALKED = 1_000
NEAR_INVERSE_SHARE = 0.8
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Report:
    """The doctor's report: what is in the data, and the findings, the gravest first."""

    statistics: Statistics
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "statistics": self.statistics.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def diagnose(dataset: Dataset, settings: Settings | None = None) -> Report:
    """Examine a data set for what would make training on it slow, its numbers flattering, or its answers unreachable."""
    settings = settings or Settings()
    findings = [
        *dataset.findings,
        *_undivided(dataset),
        *_unseen(dataset),
        *_columns_in_doubt(dataset),
        *_stray_blanks(dataset),
        *_repeated_relations(dataset),
        *_self_loops(dataset),
        *_degree_outliers(dataset),
        *_reachability(dataset, settings),
    ]
    return Report(statistics(dataset), tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level))))


def _undivided(dataset: Dataset) -> list[Finding]:
    if len(dataset.valid) and len(dataset.test):
        return []
    missing = " and ".join(split for split in ("valid", "test") if not len(dataset.splits[split]))
    message = f"there are no facts held out for {missing}"
    return [Finding("note", "no-held-out-facts", message, remedy="`hopwalk data split` divides a file of triples.")]


def _columns_in_doubt(dataset: Dataset) -> list[Finding]:
    """Relations that look like entities: the columns may be in another order than we think."""
    names = [dataset.relations[id_] for id_ in range(0, len(dataset.relations), max(len(dataset.relations) // 1000, 1))]
    share = sum(name in dataset.entities for name in names) / max(len(names), 1)
    if share < 0.5 and len(dataset.relations) <= max(len(dataset.facts) / 3, 10):
        return []
    sizes = f"{counted(len(dataset.relations), 'relation')} in {counted(len(dataset.facts), 'fact')}"
    message = f"there are {sizes}, and {share:.0%} of the relations are entities too"
    remedy = "Are the columns in order? --columns 1,3,2 says that the relation comes last."
    return [Finding("warning", "columns-in-doubt", message, len(dataset.relations), tuple(names[:3]), remedy)]


def _stray_blanks(dataset: Dataset) -> list[Finding]:
    """Labels that begin or end with a blank: often two spellings of one name."""
    vocabularies = (dataset.relations, dataset.entities)
    count = sum(vocabulary.count_outer_blanks() for vocabulary in vocabularies)
    if not count:
        return []
    examples = [repr(label) for vocabulary in vocabularies for label in vocabulary.with_outer_blanks(3)]
    message = f"labels that begin or end with a blank (`a` and `a ` are different entities): {count:,}"
    return [Finding("warning", "stray-blanks", message, count, tuple(examples[:3]))]


def _unseen(dataset: Dataset) -> list[Finding]:
    """Held-out questions about entities or relations that the graph does not know."""
    facts = dataset.facts
    is_entity_seen = np.zeros(len(dataset.entities), dtype=np.bool_)
    is_entity_seen[facts.heads] = is_entity_seen[facts.tails] = True
    is_relation_seen = np.zeros(len(dataset.relations), dtype=np.bool_)
    is_relation_seen[facts.relations] = True
    findings = []
    for split in ("train", "valid", "test"):
        queries = dataset.splits[split]
        unseen = ~(is_entity_seen[queries.heads] & is_entity_seen[queries.tails])
        if unseen.any():
            ids = np.unique(np.concatenate([queries.heads, queries.tails]))
            ids = ids[~is_entity_seen[ids]]
            entities = counted(len(ids), "entity")
            message = f"questions of {split} with an entity that no training fact mentions: {unseen.sum():,} ({entities})"
            examples = tuple(dataset.entities.name(id_) for id_ in ids[:3])
            remedy = "They count as wrong answers. `hopwalk data split` makes splits without them."
            findings.append(Finding("warning", "unseen-entities", message, int(unseen.sum()), examples, remedy))
        unseen = ~is_relation_seen[queries.relations]
        if unseen.any():
            ids = np.unique(queries.relations[unseen])
            message = f"questions of {split} with a relation that no training fact has: {unseen.sum():,}"
            examples = tuple(dataset.relations.name(id_) for id_ in ids[:3])
            findings.append(Finding("warning", "unseen-relations", message, int(unseen.sum()), examples))
    return findings


def _self_loops(dataset: Dataset) -> list[Finding]:
    is_loop = dataset.facts.heads == dataset.facts.tails
    count = int(is_loop.sum())
    if not count:
        return []
    examples = tuple(dataset.texts_of(dataset.facts[np.flatnonzero(is_loop)[:3]]))
    message = f"facts that lead from an entity to itself: {count:,}"
    return [Finding("note", "self-loops", message, count, examples)]


def _repeated_relations(dataset: Dataset) -> list[Finding]:
    """Relations that mostly repeat another one, or turn it round: their held-out facts can be read off training."""
    facts = dataset.facts
    is_sampled = len(facts) > MOST_FACTS_COMPARED
    rows = np.random.default_rng(0).permutation(len(facts))[:MOST_FACTS_COMPARED] if is_sampled else slice(None)
    is_loop = pl.col("head") == pl.col("tail")  # a loop is its own inverse, which says nothing
    sampled, everything = _pairs(facts[rows]).filter(~is_loop), _pairs(facts).filter(~is_loop)
    sizes = dict(sampled.group_by("relation").len().iter_rows())
    turned = everything.rename({"head": "tail", "tail": "head"})
    findings, givers = [], {}
    for kind, other in (("inverse", turned), ("duplicate", everything)):
        joined = sampled.join(other, on=["head", "tail"], suffix="_other")
        if kind == "duplicate":
            joined = joined.filter(pl.col("relation") != pl.col("relation_other"))
        shared = joined.group_by("relation", "relation_other").len()
        near = sorted(
            (
                (count / sizes[one], one, two)
                for one, two, count in shared.iter_rows()
                if count >= NEAR_INVERSE_SHARE * sizes[one] and sizes[one] >= 5
            ),
            key=lambda row: (-row[0], row[1:]),
        )
        givers[kind] = [(one, two) for _, one, two in near]
        if near:
            name = dataset.relations.name
            examples = tuple(f"{name(one)} / {name(two)} ({share:.0%})" for share, one, two in near[:3])
            what = "is the same facts the other way round" if kind == "inverse" else "repeats the same facts"
            sample = " (on a sample)" if is_sampled else ""
            message = f"pairs of relations of which one mostly {what}{sample}: {len(near):,}"
            findings.append(Finding("note", f"{kind}-relations", message, len(near), examples))
    return findings + _leaks(dataset, givers)


def _leaks(dataset: Dataset, givers: dict[str, list[tuple[int, int]]]) -> list[Finding]:
    """Held-out facts that a single training edge of an inverse or duplicate relation gives away."""
    queries = Triples.concatenate([dataset.valid, dataset.test])
    if not len(queries) or not any(givers.values()):
        return []
    asked, known = _pairs(queries).with_row_index("row"), _pairs(dataset.facts)
    turned = known.rename({"head": "tail", "tail": "head"})
    rows = []
    for kind, other in (("inverse", turned), ("duplicate", known)):
        pairs = pl.DataFrame(givers[kind], schema={"relation": pl.Int32, "relation_other": pl.Int32}, orient="row")
        suspects = asked.join(pairs, on="relation")
        rows.append(
            suspects.join(other, left_on=["head", "relation_other", "tail"], right_on=["head", "relation", "tail"], how="semi")
        )
    given_away = pl.concat(frame.select("row") for frame in rows).n_unique()
    if not given_away:
        return []
    share = given_away / len(queries)
    message = f"held-out facts that a training edge of an inverse or duplicate relation gives away: {given_away:,} ({share:.1%})"
    remedy = "Numbers on such data flatter every method; that is a property of the split, not of the model."
    return [Finding("warning", "leaking-relations", message, given_away, remedy=remedy)]


def _degree_outliers(dataset: Dataset) -> list[Finding]:
    degrees = np.bincount(np.concatenate([dataset.facts.heads, dataset.facts.tails]), minlength=len(dataset.entities))
    findings = []
    hubs = np.argsort(-degrees, kind="stable")[:3]
    share = degrees[hubs[0]] / max(len(dataset.facts), 1)
    if len(dataset.facts) >= 100 and share > 0.05 and degrees[hubs[0]] > 20 * max(np.median(degrees), 1):
        examples = tuple(f"{dataset.entities.name(id_)} ({degrees[id_]:,})" for id_ in hubs)
        message = f"one entity takes part in {share:.0%} of the facts: walks crowd through such hubs"
        findings.append(Finding("note", "hubs", message, int(degrees[hubs[0]]), examples))
    num_isolated = int((degrees == 0).sum())
    if num_isolated:
        message = f"entities without a fact in the graph, which no walk can leave or reach: {num_isolated:,}"
        findings.append(Finding("note", "isolated-entities", message, num_isolated))
    counts = np.bincount(dataset.facts.relations, minlength=len(dataset.relations))
    rare = np.flatnonzero(counts < 5)
    if len(rare):
        examples = tuple(dataset.relations.name(id_) for id_ in rare[:3])
        message = f"relations with fewer than 5 facts to learn from: {len(rare):,}"
        findings.append(Finding("note", "rare-relations", message, len(rare), examples))
    return findings


def _reachability(dataset: Dataset, settings: Settings) -> list[Finding]:
    """How many held-out answers lie within reach of a walk, and what the fan-out limit takes away."""
    sizes = (len(dataset.entities), len(dataset.relations))
    trimmed = build_graph(dataset.facts, *sizes, settings.graph)
    num_cut = 2 * len(dataset.facts) + len(dataset.entities) - trimmed.num_edges
    whole = trimmed
    if num_cut:
        largest = int(np.bincount(np.concatenate([dataset.facts.heads, dataset.facts.tails])).max())
        whole = build_graph(dataset.facts, *sizes, settings.graph.model_copy(update={"fan_out": largest}))
    queries, hops = _sample_queries(dataset), settings.walk.hops
    is_reached = reached(whole, queries.heads, queries.tails, hops)
    num_asked = len(is_reached)
    sample = "" if num_asked == len(dataset.valid) + len(dataset.test) else " (a sample)"
    findings = []
    if num_cut:
        findings.append(_fan_out_finding(whole, trimmed, num_cut, settings))
        still_reached = reached(trimmed, queries.heads[:num_asked], queries.tails[:num_asked], hops)
        num_asked_twice = min(num_asked, len(still_reached))
        lost = int((is_reached[:num_asked_twice] & ~still_reached[:num_asked_twice]).sum())
        message = (
            f"held-out answers{sample} that the fan-out limit puts out of reach of {hops} hops: {lost:,} of {num_asked_twice:,}"
        )
        if lost:
            findings.append(Finding("warning", "answers-cut-off", message, lost, remedy="Raise graph.fan_out."))
    if num_asked:
        count = int(is_reached.sum())
        message = (
            f"{count / num_asked:.1%} of {num_asked:,} held-out answers{sample} lie within {hops} hops: no walk can do better"
        )
        findings.append(Finding("note", "within-reach", message, count, remedy="walk.hops sets how far a walk goes."))
    return findings


def _fan_out_finding(whole: Graph, trimmed: Graph, num_cut: int, settings: Settings) -> Finding:
    num_entities = int((whole.degrees > trimmed.degrees).sum())
    message = (
        f"a fan-out of {settings.graph.fan_out} cuts {counted(num_cut, 'edge')} ({num_cut / whole.num_edges:.1%}) "
        f"of {counted(num_entities, 'entity')}; the largest has {int(whole.degrees.max()) - 1:,}"
    )
    return Finding("note", "fan-out", message, num_cut, remedy="graph.fan_out sets the limit; edges to important entities stay.")


def _sample_queries(dataset: Dataset) -> Triples:
    """Held-out questions in a random order, not more than are worth walking."""
    queries = Triples.concatenate([dataset.valid, dataset.test])
    return queries[np.random.default_rng(0).permutation(len(queries))[:MOST_QUERIES_WALKED]]


def _pairs(facts: Triples) -> pl.DataFrame:
    return pl.DataFrame({"head": facts.heads, "relation": facts.relations, "tail": facts.tails})
