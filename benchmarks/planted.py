"""A graph of drugs, genes and diseases with planted rules of known confidence, noise, and facts held out.

    python -m benchmarks.planted FOLDER [--drugs 600] [--seed 0]

writes train.tsv, valid.tsv and test.tsv. All names are invented. `python -m benchmarks.planted --csv FILE --drugs 60` writes the
training facts of a short form as one table: tests/support/drugs.csv was made by it, with the seed 0.

Every walk along the body of a rule makes its fact true with the rule's confidence, independently of other walks: a pair that
several walks connect is more likely. One in twenty facts of the concluded relations is noise. A tenth of them is held out for dev
and another for test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.results import parser_of
from hopwalk.utils.files import write_text

Fact = tuple[str, str, str]
Step = tuple[str, bool]  # relation, is walked against its arrow

NOISE = 0.05
HELD_OUT = 0.1  # for dev, and as much for test
ONSETS = ("b", "br", "c", "d", "dr", "f", "g", "l", "m", "n", "p", "pr", "r", "s", "t", "tr", "v", "z")
VOWELS = ("a", "e", "i", "o", "u")


@dataclass(frozen=True)
class PlantedRule:
    """`head(X,Y) ⇐ body`: a walk along the body makes the fact true with this probability."""

    head: str
    body: tuple[Step, ...]
    confidence: float


RULES = (
    PlantedRule("may_treat", (("inhibits", False), ("raised_in", False)), 0.6),
    PlantedRule("may_treat", (("activates", False), ("lowered_in", False)), 0.45),
    PlantedRule("may_treat", (("similar_to", False), ("may_treat", False)), 0.15),
    PlantedRule("side_effect", (("inhibits", False), ("in_pathway", False), ("felt_as", False)), 0.5),
    PlantedRule("used_in", (("may_treat", False), ("belongs_to", False)), 0.9),
)
CONCLUDED = ("may_treat", "side_effect", "used_in")


@dataclass(frozen=True)
class Planted:
    """The facts of a planted graph by split: those to train on, and those held out for dev and for test."""

    train: list[Fact]
    valid: list[Fact]
    test: list[Fact]


def planted(num_drugs: int = 600, *, seed: int = 0) -> Planted:
    """The graph for a number of drugs; 600 give about 9,000 facts."""
    random = np.random.default_rng(seed)
    names = _names(random)
    drugs = [f"{next(names)}{random.choice(['mab', 'ine', 'ol', 'atin', 'ide'])}" for _ in range(num_drugs)]
    genes = [f"{next(names)[:3].upper()}{number % 9 + 1}{number}" for number in range(num_drugs)]
    diseases = [f"{next(names)}{random.choice(['itis', 'osis', 'emia', 'pathy'])}" for _ in range(num_drugs // 2)]
    pathways = [f"{next(names)} pathway" for _ in range(max(num_drugs // 8, 4))]
    symptoms = [f"{next(names)}{random.choice(['algia', 'urea', 'plegia'])}" for _ in range(max(num_drugs // 6, 6))]
    areas = [f"{next(names)}ology" for _ in range(max(num_drugs // 40, 8))]
    facts: set[Fact] = set()

    def link(ones: list[str], relation: str, others: list[str], mean: float, least: int = 0) -> None:
        for one in ones:
            count = min(least + random.poisson(mean - least), len(others))
            facts.update((one, relation, other) for other in random.choice(others, count, replace=False).tolist() if other != one)

    link(drugs, "inhibits", genes, 1.6, 1)
    link(drugs, "activates", genes, 1.0)
    link(genes, "raised_in", diseases, 1.4)
    link(genes, "lowered_in", diseases, 1.2)
    link(genes, "in_pathway", pathways, 1.3, 1)
    link(pathways, "felt_as", symptoms, 1.5, 1)
    link(diseases, "felt_as", symptoms, 2.0, 1)
    link(diseases, "belongs_to", areas, 1.0, 1)
    link(drugs, "similar_to", drugs, 1.5)
    for rule in RULES:
        facts |= _concluded(rule, facts, random)
    ends = {"may_treat": diseases, "side_effect": symptoms, "used_in": areas}
    for relation, others in ends.items():
        count = int(NOISE * sum(fact[1] == relation for fact in facts))
        facts |= {(str(random.choice(drugs)), relation, str(random.choice(others))) for _ in range(count)}
    return _split(sorted(facts), random)


def _names(random: np.random.Generator) -> Iterator[str]:
    """Invented names, each once."""
    seen: set[str] = set()
    while True:
        name = "".join(f"{random.choice(ONSETS)}{random.choice(VOWELS)}" for _ in range(random.integers(2, 4)))
        name += str(random.choice(["l", "n", "r", "x"]))
        if name not in seen:
            seen.add(name)
            yield name


def _concluded(rule: PlantedRule, facts: set[Fact], random: np.random.Generator) -> set[Fact]:
    """The facts that walks along the body of a rule make true."""
    ends: list[tuple[str, str]] = sorted({(head, head) for head, relation, _ in facts if relation == rule.body[0][0]})
    for relation, is_inverse in rule.body:
        following: dict[str, list[str]] = {}
        for head, name, tail in sorted(facts):
            if name == relation:
                one, other = (tail, head) if is_inverse else (head, tail)
                following.setdefault(one, []).append(other)
        ends = [(start, other) for start, end in ends for other in following.get(end, ())]
    return {(start, rule.head, end) for start, end in ends if random.random() < rule.confidence}


def _split(facts: list[Fact], random: np.random.Generator) -> Planted:
    """Hold out concluded facts, dev and test alike, whose entities have other facts."""
    mentions: dict[str, int] = {}
    for head, _, tail in facts:
        for entity in (head, tail):
            mentions[entity] = mentions.get(entity, 0) + 1
    concluded = [fact for fact in facts if fact[1] in CONCLUDED]
    wanted = int(HELD_OUT * len(concluded))
    held_out: list[Fact] = []
    for row in random.permutation(len(concluded)):
        head, _, tail = concluded[row]
        if min(mentions[head], mentions[tail]) > 1 and len(held_out) < 2 * wanted:
            held_out.append(concluded[row])
            mentions[head] -= 1
            mentions[tail] -= 1
    left_out = {*held_out}
    return Planted([fact for fact in facts if fact not in left_out], sorted(held_out[::2]), sorted(held_out[1::2]))


def _table(facts: list[Fact], separator: str) -> str:
    return "".join(separator.join(fact) + "\n" for fact in facts)


def write_split(graph: Planted, folder: Path) -> None:
    """Write the graph as a folder of files that `hopwalk.load_dataset` opens."""
    for name in ("train", "valid", "test"):
        write_text(folder / f"{name}.tsv", _table(getattr(graph, name), "\t"))


def csv(graph: Planted) -> str:
    """The training facts as a table with a header."""
    return "head,relation,tail\n" + _table(graph.train, ",")


def main() -> None:
    """Write a graph."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--drugs", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    graph = planted(given.drugs, seed=given.seed)
    if given.folder:
        write_split(graph, given.folder)
    if given.csv:
        write_text(given.csv, csv(graph))


if __name__ == "__main__":
    main()
