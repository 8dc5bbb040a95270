"""Diagnostics: what to know about a data set before training on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.findings import LEVELS, Finding
from hopwalk.data.graph import Graph, build_graph
from hopwalk.data.reachability import reached
from hopwalk.data.statistics import Statistics, statistics
from hopwalk.data.triples import Triples
from hopwalk.utils.text import counted

MOST_FACTS_COMPARED = 2_000_000
MOST_QUERIES_WALKED = 1_000
NEAR_INVERSE_SHARE = 0.8


@dataclass(frozen=True)
class Report:
    """The diagnostics of a data set: its statistics, and findings with the most severe first."""

    statistics: Statistics
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "statistics": self.statistics.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def diagnose(dataset: Dataset, settings: Settings | None = None) -> Report:
    """Check a data set for what makes training slow, results too good to be true, or answers unreachable."""
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
    message = f"no facts are held out for {missing}"
    return [Finding("note", "no-held-out-facts", message, remedy="`hopwalk data split` splits a file of triples.")]


def _columns_in_doubt(dataset: Dataset) -> list[Finding]:
    """Relations that look like entities: the columns may be in another order."""
    names = [dataset.relations[id_] for id_ in range(0, len(dataset.relations), max(len(dataset.relations) // 1000, 1))]
    share = sum(name in dataset.entities for name in names) / max(len(names), 1)
    if share < 0.5 and len(dataset.relations) <= max(len(dataset.facts) / 3, 10):
        return []
    sizes = f"{counted(len(dataset.relations), 'relation')} in {counted(len(dataset.facts), 'fact')}"
    message = f"there are {sizes}, and {share:.0%} of the relations are also entities"
    remedy = 'Check the order of the columns. If the relation is last, set read.columns to "1,3,2".'
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
    """Queries about entities or relations without a fact in the graph."""
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
            message = f"queries of {split} with an entity that is in no training fact: {unseen.sum():,} ({entities})"
            examples = tuple(dataset.entities.name(id_) for id_ in ids[:3])
            remedy = "Their answers count as wrong. `hopwalk data split` makes splits without such queries."
            findings.append(Finding("warning", "unseen-entities", message, int(unseen.sum()), examples, remedy))
        unseen = ~is_relation_seen[queries.relations]
        if unseen.any():
            ids = np.unique(queries.relations[unseen])
            message = f"queries of {split} with a relation that is in no training fact: {unseen.sum():,}"
            examples = tuple(dataset.relations.name(id_) for id_ in ids[:3])
            findings.append(Finding("warning", "unseen-relations", message, int(unseen.sum()), examples))
    return findings


def _self_loops(dataset: Dataset) -> list[Finding]:
    is_loop = dataset.facts.heads == dataset.facts.tails
    count = int(is_loop.sum())
    if not count:
        return []
    examples = tuple(dataset.texts_of(dataset.facts[np.flatnonzero(is_loop)[:3]]))
    message = f"facts from an entity to itself: {count:,}"
    return [Finding("note", "self-loops", message, count, examples)]


def _repeated_relations(dataset: Dataset) -> list[Finding]:
    """Relations that are nearly a duplicate or the inverse of another: training then contains the answers of held-out queries."""
    facts = dataset.facts
    is_sampled = len(facts) > MOST_FACTS_COMPARED
    rows = np.random.default_rng(0).permutation(len(facts))[:MOST_FACTS_COMPARED] if is_sampled else slice(None)
    is_loop = pl.col("head") == pl.col("tail")  # a self-loop is its own inverse, which means nothing
    sampled, all_pairs = _pairs(facts[rows]).filter(~is_loop), _pairs(facts).filter(~is_loop)
    sizes = dict(sampled.group_by("relation").len().iter_rows())
    inverted = all_pairs.rename({"head": "tail", "tail": "head"})
    findings, related = [], {}
    for kind, other in (("inverse", inverted), ("duplicate", all_pairs)):
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
        related[kind] = [(one, two) for _, one, two in near]
        if near:
            name = dataset.relations.name
            examples = tuple(f"{name(one)} / {name(two)} ({share:.0%})" for share, one, two in near[:3])
            what = "the inverse" if kind == "inverse" else "a duplicate"
            sample = " (on a sample)" if is_sampled else ""
            message = f"pairs of relations of which one is nearly {what} of the other{sample}: {len(near):,}"
            findings.append(Finding("note", f"{kind}-relations", message, len(near), examples))
    return findings + _leaks(dataset, related)


def _leaks(dataset: Dataset, related: dict[str, list[tuple[int, int]]]) -> list[Finding]:
    """Held-out facts that a training fact of an inverse or duplicate relation reveals."""
    queries = Triples.concatenate([dataset.valid, dataset.test])
    if not len(queries) or not any(related.values()):
        return []
    held_out, known = _pairs(queries).with_row_index("row"), _pairs(dataset.facts)
    inverted = known.rename({"head": "tail", "tail": "head"})
    rows = []
    for kind, other in (("inverse", inverted), ("duplicate", known)):
        pairs = pl.DataFrame(related[kind], schema={"relation": pl.Int32, "relation_other": pl.Int32}, orient="row")
        suspects = held_out.join(pairs, on="relation")
        rows.append(
            suspects.join(other, left_on=["head", "relation_other", "tail"], right_on=["head", "relation", "tail"], how="semi")
        )
    num_revealed = pl.concat(frame.select("row") for frame in rows).n_unique()
    if not num_revealed:
        return []
    share = num_revealed / len(queries)
    message = f"held-out facts that a training fact of an inverse or duplicate relation reveals: {num_revealed:,} ({share:.1%})"
    remedy = "Results on such data are too good for every method. That is a property of the split, not of the model."
    return [Finding("warning", "leaking-relations", message, num_revealed, remedy=remedy)]


def _degree_outliers(dataset: Dataset) -> list[Finding]:
    degrees = np.bincount(np.concatenate([dataset.facts.heads, dataset.facts.tails]), minlength=len(dataset.entities))
    findings = []
    hubs = np.argsort(-degrees, kind="stable")[:3]
    share = degrees[hubs[0]] / max(len(dataset.facts), 1)
    if len(dataset.facts) >= 100 and share > 0.05 and degrees[hubs[0]] > 20 * max(np.median(degrees), 1):
        examples = tuple(f"{dataset.entities.name(id_)} ({degrees[id_]:,})" for id_ in hubs)
        message = f"one entity is in {share:.0%} of the facts: most walks pass through such a hub"
        findings.append(Finding("note", "hubs", message, int(degrees[hubs[0]]), examples))
    num_isolated = int((degrees == 0).sum())
    if num_isolated:
        message = f"entities without a fact in the graph, which no walk can reach or leave: {num_isolated:,}"
        findings.append(Finding("note", "isolated-entities", message, num_isolated))
    counts = np.bincount(dataset.facts.relations, minlength=len(dataset.relations))
    rare = np.flatnonzero(counts < 5)
    if len(rare):
        examples = tuple(dataset.relations.name(id_) for id_ in rare[:3])
        message = f"relations with fewer than 5 facts to learn from: {len(rare):,}"
        findings.append(Finding("note", "rare-relations", message, len(rare), examples))
    return findings


def _reachability(dataset: Dataset, settings: Settings) -> list[Finding]:
    """The share of held-out answers that a walk can reach, and what the fan-out limit removes."""
    sizes = (len(dataset.entities), len(dataset.relations))
    trimmed = build_graph(dataset.facts, *sizes, settings.graph)
    num_cut = 2 * len(dataset.facts) + len(dataset.entities) - trimmed.num_edges
    whole = trimmed
    if num_cut:
        largest = int(np.bincount(np.concatenate([dataset.facts.heads, dataset.facts.tails])).max())
        whole = build_graph(dataset.facts, *sizes, settings.graph.model_copy(update={"fan_out": largest}))
    queries, hops = _sample_queries(dataset), settings.walk.hops
    is_reached = reached(whole, queries.heads, queries.tails, hops)
    num_queries = len(is_reached)
    sample = "" if num_queries == len(dataset.valid) + len(dataset.test) else " (a sample)"
    findings = []
    if num_cut:
        findings.append(_fan_out_finding(whole, trimmed, num_cut, settings))
        still_reached = reached(trimmed, queries.heads[:num_queries], queries.tails[:num_queries], hops)
        num_compared = min(num_queries, len(still_reached))
        lost = int((is_reached[:num_compared] & ~still_reached[:num_compared]).sum())
        message = (
            f"held-out answers{sample} that the fan-out limit puts out of reach of {hops} hops: {lost:,} of {num_compared:,}"
        )
        if lost:
            findings.append(Finding("warning", "answers-cut-off", message, lost, remedy="Raise graph.fan_out."))
    if num_queries:
        count = int(is_reached.sum())
        message = f"{count / num_queries:.1%} of {num_queries:,} held-out answers{sample} are within {hops} hops"
        findings.append(
            Finding(
                "note", "within-reach", message, count, remedy="No walk can find the others. walk.hops sets the length of walks."
            )
        )
    return findings


def _fan_out_finding(whole: Graph, trimmed: Graph, num_cut: int, settings: Settings) -> Finding:
    num_entities = int((whole.degrees > trimmed.degrees).sum())
    message = (
        f"a fan-out of {settings.graph.fan_out} removes {counted(num_cut, 'edge')} ({num_cut / whole.num_edges:.1%}) "
        f"of {counted(num_entities, 'entity')}; the largest out-degree is {int(whole.degrees.max()) - 1:,}"
    )
    return Finding(
        "note",
        "fan-out",
        message,
        num_cut,
        remedy="graph.fan_out sets the limit; edges to the entities of highest PageRank are kept.",
    )


def _sample_queries(dataset: Dataset) -> Triples:
    """Held-out queries in random order, at most `MOST_QUERIES_WALKED`."""
    queries = Triples.concatenate([dataset.valid, dataset.test])
    return queries[np.random.default_rng(0).permutation(len(queries))[:MOST_QUERIES_WALKED]]


def _pairs(facts: Triples) -> pl.DataFrame:
    return pl.DataFrame({"head": facts.heads, "relation": facts.relations, "tail": facts.tails})
