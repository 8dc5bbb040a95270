"""The reasoner: a trained run that can be asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hopwalk.data.dataset import Dataset
from hopwalk.errors import SettingsError
from hopwalk.learning.run import Run
from hopwalk.reasoning.asking import answer_queries
from hopwalk.reasoning.completing import Completed, OnProgress, complete_into
from hopwalk.reasoning.explaining import explain_fact
from hopwalk.reasoning.facts import LabelledFact, add_facts, read_facts
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.models import AnswerModel
from hopwalk.reasoning.names import Names
from hopwalk.reasoning.profiles import Profile, Profiler, RelationFacts
from hopwalk.reasoning.results import Answers, ShownExplanation
from hopwalk.reasoning.rule_mining import UsedRule, used_rules
from hopwalk.utils.text import counted


@dataclass(frozen=True, repr=False, eq=False)
class Reasoner:
    """A trained run, loaded to be asked: `reasoner = hopwalk.load("runs/umls")`.

    Entities and relations are given by label or by readable name, apart from case, blanks, hyphens and underscores. `relation⁻¹`
    is the inverse of a relation. `new_entities` are those that `with_facts` brought.
    """

    run: Run
    model: AnswerModel
    names: Names
    new_entities: tuple[str, ...] = ()

    @classmethod
    def load(cls, run: str | Path) -> Reasoner:
        """The reasoner of a run folder: propagation, a walker, an ensemble, or an embedding model, which has no paths."""
        opened = Run.open(run)
        model = load_model(opened)
        return cls(opened, model, Names(model.dataset))

    @property
    def dataset(self) -> Dataset:
        """The data that it answers over."""
        return self.model.dataset

    def __repr__(self) -> str:
        data = self.dataset
        counts = {"entity": len(data.entities), "relation": len(data.relations), "fact": len(data.facts)}
        size = ", ".join(counted(count, noun) for noun, count in counts.items())
        paths = f"paths of ≤ {counted(self.model.max_hops, 'hop')}" if self.model.max_hops else "no paths"
        return f"Reasoner({data.name!r}: {size}; {paths})"

    @property
    def card(self) -> str:
        """The description of the run, as Markdown; empty if the run has none."""
        return self.run.card

    def ask(self, head: str, relation: str, *, k: int = 10, num_paths: int = 3, only_new: bool = False) -> Answers:
        """The `k` best answers of `(head, relation, ?)`, each with the paths behind its score.

        Known facts are marked as known, or left out with `only_new`.
        """
        return self.ask_many([(head, relation)], k=k, num_paths=num_paths, only_new=only_new)[0]

    def ask_many(
        self, queries: Iterable[tuple[str, str]], *, k: int = 10, num_paths: int = 3, only_new: bool = False
    ) -> list[Answers]:
        """The answers of many queries `(head, relation)`: the same as one by one, and several times faster."""
        _require_positive(k=k, num_paths=num_paths)
        ids = [self.names.query_ids(head, relation) for head, relation in queries]
        found = answer_queries(self.model, ids, k=k, num_paths=num_paths, only_new=only_new)
        entity, relation, hops = self.dataset.entities.name, self.names.relation_name, self.model.max_hops
        return [
            Answers(answers, entity(head_id), relation(relation_id), hops=hops)
            for (head_id, relation_id), answers in zip(ids, found, strict=True)
        ]

    def explain(self, head: str, relation: str, tail: str, *, num_paths: int = 5) -> ShownExplanation:
        """Why `tail` answers `(head, relation, ?)`: its paths, their rules, how often these hold; or why not."""
        _require_positive(num_paths=num_paths)
        fact = (*self.names.query_ids(head, relation), self.names.entity_id(tail))
        return ShownExplanation(**vars(explain_fact(self.model, fact, num_paths=num_paths)))

    def profile(self, entity: str, *, num_facts: int = 10, num_similar: int = 10) -> Profile:
        """The entity as the graph knows it: its facts by relation, the first few of each, and the entities most like it."""
        _require_positive(num_facts=num_facts, num_similar=num_similar)
        profiler = Profiler(self.dataset, self.model.known)
        return profiler.profile(self.names.entity_id(entity), num_facts=num_facts, num_similar=num_similar)

    def facts(self, entity: str, relation: str, *, offset: int = 0, limit: int = 50) -> RelationFacts:
        """The entity's known facts of a relation, or of an inverse, `limit` from `offset` on, in the order of labels."""
        _require_positive(limit=limit)
        entity_id, relation_id = self.names.query_ids(entity, relation)
        return Profiler(self.dataset, self.model.known).facts(entity_id, relation_id, offset=offset, limit=limit)

    def rules(self, relation: str, *, split: str = "", k: int = 20) -> list[UsedRule]:
        """The rules used for a relation, over its dev queries (or those of `split`), most used first."""
        _require_positive(k=k)
        return used_rules(self.model, self.names.relation_id(relation), split=split, k=k)

    def complete(
        self,
        out: str | Path,
        *,
        relations: Sequence[str] = (),
        above: float = 0.5,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Completed:
        """Write missing facts to a .tsv, .parquet or .nt file, with probability and best path.

        `(head, relation, ?)` is asked for every head of a fact of the relation. With `resume`, an interrupted run continues.
        """
        ids = [self.names.relation_id(relation) for relation in relations]
        report = on_progress or (lambda *_: None)
        return complete_into(self.model, Path(out), relation_ids=ids, above=above, resume=resume, on_progress=report)

    def with_facts(self, facts: str | Path | Iterable[LabelledFact], *, source: Path | None = None) -> Reasoner:
        """The reasoner with more facts, from a file or as `(head, relation, tail)`; this one is unchanged.

        They are walked, marked as known, and counted for rules. Nothing is trained. A propagation model takes entities that it
        never saw; other models know only those they were trained with. `source` is the file that errors name.
        """
        if isinstance(facts, str | Path):
            source, facts = Path(facts), read_facts(Path(facts))[0]
        added = add_facts(self.names, facts, source, takes_new_entities=self.model.takes_new_entities)
        model = self.model.with_data(added.dataset, added.facts)
        names = Names(added.dataset) if added.new_entities else self.names
        return replace(self, model=model, names=names, new_entities=self.new_entities + added.new_entities)


MOST_PATHS = 1000  # of an answer: candidates are held for each
MOST_ROWS = 2**31 - 1  # answers, rules and facts: more have no ids


def _require_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int) or -(10**20) < number < 1:
            raise SettingsError(f"{name} must be a whole number of at least 1, not {number!r}")
        most = MOST_PATHS if name == "num_paths" else MOST_ROWS
        if not 1 <= number <= most:
            raise SettingsError(f"{name} must be between 1 and {most:,}")
