"""The reasoner: a trained run that can be asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopwalk.data.dataset import Dataset
from hopwalk.data.graph import with_facts as graph_with_facts
from hopwalk.errors import SettingsError
from hopwalk.learning.run import Run
from hopwalk.reasoning.asking import answer_queries
from hopwalk.reasoning.completing import Completed, OnProgress, complete_into
from hopwalk.reasoning.explaining import explain_fact
from hopwalk.reasoning.facts import LabelledFact, facts_to_ids, read_facts
from hopwalk.reasoning.names import Names
from hopwalk.reasoning.results import Answers, ShownExplanation
from hopwalk.reasoning.rule_mining import UsedRule, used_rules
from hopwalk.utils.text import counted
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import Environment
from hopwalk.walker.runs import load_decoder


@dataclass(frozen=True, repr=False, eq=False)
class Reasoner:
    """A trained run, loaded to be asked: `reasoner = hopwalk.load("runs/umls")`.

    Entities and relations are given by label or by readable name, apart from case, blanks, hyphens and underscores. `relation⁻¹`
    is the inverse of a relation.
    """

    run: Run
    dataset: Dataset
    decoder: Decoder
    names: Names

    @classmethod
    def load(cls, run: str | Path) -> Reasoner:
        """The reasoner of a run folder."""
        opened = Run.open(run)
        decoder = load_decoder(opened)
        return cls(opened, opened.dataset, decoder, Names(opened.dataset))

    def __repr__(self) -> str:
        data, walk = self.dataset, self.decoder.settings.walk
        counts = {"entity": len(data.entities), "relation": len(data.relations), "fact": len(data.facts)}
        size = ", ".join(counted(count, noun) for noun, count in counts.items())
        scorer = "with a scorer" if self.has_scorer else "without a scorer"
        return f"Reasoner({data.name!r}: {size}; {counted(walk.hops, 'hop')}, beam {walk.beam}, {scorer})"

    @property
    def has_scorer(self) -> bool:
        """Whether a scorer takes part in the ranking of answers."""
        return self.decoder.scorer_logits is not None

    @property
    def card(self) -> str:
        """The description of the run, as Markdown; empty if the run has none."""
        path = self.run.path / "card.md"
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def ask(self, head: str, relation: str, *, k: int = 10, num_paths: int = 3, only_new: bool = False) -> Answers:
        """The `k` best answers of `(head, relation, ?)`, each with its best paths.

        They are ranked by the blend of paths and scorer; by paths alone without a scorer. Known facts are marked as known, or
        left out with `only_new`.
        """
        return self.ask_many([(head, relation)], k=k, num_paths=num_paths, only_new=only_new)[0]

    def ask_many(
        self, queries: Iterable[tuple[str, str]], *, k: int = 10, num_paths: int = 3, only_new: bool = False
    ) -> list[Answers]:
        """The answers of many queries `(head, relation)`: the same as one by one, and several times faster."""
        _require_positive(k=k, num_paths=num_paths)
        ids = [self.names.query_ids(head, relation) for head, relation in queries]
        found = answer_queries(self.decoder, self.dataset, ids, k=k, num_paths=num_paths, only_new=only_new)
        entity, relation, hops = self.dataset.entities.name, self.names.relation_name, self.decoder.settings.walk.hops
        return [
            Answers(answers, entity(head_id), relation(relation_id), hops=hops)
            for (head_id, relation_id), answers in zip(ids, found, strict=True)
        ]

    def explain(self, head: str, relation: str, tail: str, *, num_paths: int = 5) -> ShownExplanation:
        """Why `tail` answers `(head, relation, ?)`: its paths, their rules, how often these hold; or why not."""
        _require_positive(num_paths=num_paths)
        fact = (*self.names.query_ids(head, relation), self.names.entity_id(tail))
        return ShownExplanation(**vars(explain_fact(self.decoder, self.dataset, fact, num_paths=num_paths)))

    def rules(self, relation: str, *, split: str = "", k: int = 20) -> list[UsedRule]:
        """The rules used for a relation, over its dev queries (or those of `split`), most used first."""
        _require_positive(k=k)
        return used_rules(self.decoder, self.dataset, self.names.relation_id(relation), split=split, k=k)

    def complete(
        self,
        out: str | Path,
        *,
        relations: Sequence[str] = (),
        above: float = 0.5,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Completed:
        """Write missing facts to a .tsv, .parquet or .nt file, with confidence and best path.

        `(head, relation, ?)` is asked for every head of a fact of the relation. With `resume`, an interrupted run continues.
        """
        ids = [self.names.relation_id(relation) for relation in relations]
        report = on_progress or (lambda *_: None)
        return complete_into(
            self.decoder, self.dataset, Path(out), relation_ids=ids, above=above, resume=resume, on_progress=report
        )

    def with_facts(self, facts: str | Path | Iterable[LabelledFact], *, source: Path | None = None) -> Reasoner:
        """The reasoner with more facts, from a file or as `(head, relation, tail)`; this one is unchanged.

        They are walked, marked as known, and counted for rules. Nothing is trained: entities and relations must be known.
        `source` is the file that errors name.
        """
        if isinstance(facts, str | Path):
            source, facts = Path(facts), read_facts(Path(facts))[0]
        added = facts_to_ids(self.names, facts, source)
        dataset = replace(self.dataset, facts=self.dataset.packing.merged([self.dataset.facts, added]))
        before = self.decoder.environment
        environment = Environment(graph_with_facts(before.graph, added), before.policy, before.known.with_facts(added))
        decoder = Decoder(environment, self.decoder.settings, self.decoder.scorer_logits, self.decoder.blend_weight)
        return replace(self, dataset=dataset, decoder=decoder)


def _require_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int) or number < 1:
            raise SettingsError(f"{name} must be a whole number of at least 1, not {number!r}")
