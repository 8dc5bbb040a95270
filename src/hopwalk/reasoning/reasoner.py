"""The reasoner: a trained run that can be asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hopwalk.data.dataset import Dataset
from hopwalk.data.kinds import Kinds
from hopwalk.data.names import has_both_spellings
from hopwalk.errors import SettingsError
from hopwalk.learning.run import Run
from hopwalk.reasoning.asking import answer_queries
from hopwalk.reasoning.completing import Completed, CompletionTask, OnProgress, complete_into
from hopwalk.reasoning.connecting import PathsBetween, paths_between
from hopwalk.reasoning.explaining import explain_fact
from hopwalk.reasoning.facts import LabelledFact, add_facts, read_facts
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.models import AnswerModel
from hopwalk.reasoning.names import Names
from hopwalk.reasoning.overview import example_query, strongest_rules
from hopwalk.reasoning.profiles import Profile, Profiler, RelationFacts
from hopwalk.reasoning.proposing import Proposals, propose
from hopwalk.reasoning.results import Answers, ShownExplanation
from hopwalk.reasoning.rule_mining import UsedRule, used_rules
from hopwalk.reasoning.sharding import complete_on
from hopwalk.reasoning.values import INVERSE, fact_text
from hopwalk.utils.places import Place
from hopwalk.utils.text import counted

MOST_FACTS_OF_KINDS = 5_000_000  # for more, kinds of entities would take too long to compare


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
        """The reasoner of a run folder: propagation, a walker, an ensemble, or an embedding model, which has no paths.

        Facts that training held out of a single file (`split.hold_out`) are in its graph again.
        """
        opened = Run.open(run)
        model = load_model(opened)
        held_out = model.dataset.valid
        if opened.settings.split.hold_out and len(held_out):  # by training: it is a part of the user's graph
            model = model.with_data(model.dataset.with_facts(held_out), held_out)
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

    def ask(
        self, head: str, relation: str, tail: str = "?", *, k: int = 10, num_paths: int = 3, only_new: bool = False
    ) -> Answers:
        """The `k` best answers of `(head, relation, ?)`, or of `("?", relation, tail)`, each with the paths behind its score.

        Known facts are marked as known, or left out with `only_new`.
        """
        if (head == "?") == (tail == "?"):
            raise SettingsError(
                "a query has ? in the place of its head or of its tail", remedy='Ask for example ("?", relation, tail).'
            )
        query = (head, relation) if tail == "?" else (tail, f"{relation}{INVERSE}")
        return self.ask_many([query], k=k, num_paths=num_paths, only_new=only_new)[0]

    def ask_many(
        self, queries: Iterable[tuple[str, str]], *, k: int = 10, num_paths: int = 3, only_new: bool = False
    ) -> list[Answers]:
        """The answers of many queries `(head, relation)`: the same as one by one, and several times faster."""
        _require_positive(k=k, num_paths=num_paths)
        ids = [self.names.query_ids(head, relation) for head, relation in queries]
        found = answer_queries(self.model, ids, k=k, num_paths=num_paths, only_new=only_new)
        entity, relation, hops = self.dataset.entities.name, self.names.relation_name, self.model.max_hops
        return [
            Answers(
                answers,
                entity(head_id),
                relation(relation_id),
                hops=hops,
                count=self.model.rule_counter.count,
                doubt=self._doubt(head_id, relation_id),
                keeps_underscores=lambda: self.keeps_underscores,
            )
            for (head_id, relation_id), answers in zip(ids, found, strict=True)
        ]

    def _doubt(self, head: int, relation: int) -> str:
        """A sentence if neither the head nor anything of its kind has the relation, with the query that was perhaps meant."""
        if len(self.dataset.facts) > MOST_FACTS_OF_KINDS or self._kinds.is_alike(head, relation):
            return ""
        inverse = int(self.dataset.relation_ids.inverse(relation))
        entity = self.dataset.entities.name(head)
        sentence = f"{entity} has no fact of this kind, and nothing like it has one."
        if not self._kinds.is_alike(head, inverse):
            return sentence
        return f"{sentence} Did you mean {fact_text(entity, self.names.relation_name(inverse))}"

    @cached_property
    def _kinds(self) -> Kinds:
        return Kinds(self.dataset)

    def explain(self, head: str, relation: str, tail: str, *, num_paths: int = 5, k: int = 10) -> ShownExplanation:
        """Why `tail` answers `(head, relation, ?)`: the rules behind its score with their paths; or why it is not the first.

        Its rank is that among the `k` new answers of `ask`, which looks at more candidates for a longer list.
        """
        _require_positive(num_paths=num_paths, k=k)
        fact = (*self.names.query_ids(head, relation), self.names.entity_id(tail))
        explained = explain_fact(self.model, fact, num_paths=num_paths, k=k)
        return ShownExplanation(**vars(explained), keeps_underscores=lambda: self.keeps_underscores)

    @cached_property
    def keeps_underscores(self) -> bool:
        """Whether some names differ only in blanks and underscores; HTML must then show underscores as they are."""
        return any(has_both_spellings(names) for names in (self.dataset.entities, self.dataset.relations))

    @property
    def basis(self) -> str:
        """What percentages assume, in a sentence, if the facts to calibrate them were held out of a single file; or empty."""
        data = self.run.dataset
        if self.model.probability is None or not self.run.settings.split.hold_out or not len(data.valid):
            return ""
        held_out = f"{len(data.valid):,} of {len(data.facts) + len(data.valid):,}"
        return f"Percentages assume that the graph lacks as many facts as were held out to calibrate them: {held_out}."

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

    def paths_between(self, head: str, tail: str, *, hops: int = 3, k: int = 10) -> PathsBetween:
        """The paths of known facts between two entities, shortest first, then those through the least busy entities."""
        _require_positive(hops=hops, k=k)
        ends = self.names.entity_id(head), self.names.entity_id(tail)
        return paths_between(self.dataset, self.model.known, *ends, hops=hops, k=k)

    def propose(
        self,
        entity: str | None = None,
        relation: str | None = None,
        *,
        above: float = 0.5,
        k: int = 20,
        num_paths: int = 1,
        most_queries: int = 256,
    ) -> Proposals:
        """The likeliest missing facts about an entity, of a relation, or of both, from at most `most_queries` queries."""
        _require_positive(k=k, num_paths=num_paths, most_queries=most_queries)
        entity_id = None if entity is None else self.names.entity_id(entity)
        relation_id = None if relation is None else self.names.relation_id(relation)
        return propose(
            self.model,
            entity=entity_id,
            relation=relation_id,
            above=above,
            k=k,
            num_paths=num_paths,
            most_queries=most_queries,
        )

    def rules(self, relation: str, *, split: str = "", k: int = 20) -> list[UsedRule]:
        """The rules used for a relation, over its dev queries (or those of `split`), by use × confidence."""
        _require_positive(k=k)
        return used_rules(self.model, self.names.relation_id(relation), split=split, k=k)

    def strongest_rules(self, *, k: int = 5) -> list[UsedRule]:
        """The `k` rules behind its answers that hold most surely, of the relations with most facts; [] without paths."""
        _require_positive(k=k)
        return strongest_rules(self.model, k=k)

    def example(self) -> tuple[str, str]:
        """A head and a relation to ask for, by their labels."""
        return example_query(self.model)

    def complete(
        self,
        out: str | Path,
        *,
        relations: Sequence[str] = (),
        heads: Sequence[str] | None = None,
        above: float = 0.5,
        resume: bool = False,
        on_progress: OnProgress | None = None,
        place: Place | None = None,
    ) -> Completed:
        """Write missing facts to a .tsv, .parquet or .nt file, the most likely first, with their best path and its rule.

        All entities that could be heads of a relation are asked, and by its inverse all that could be tails; or the `heads`
        given. A fact is written once, if its probability is at least `above`. With `resume`, an interrupted run continues, and a
        file that is complete already is left as it is. At a `place` of `hopwalk.open_place`, the work is done there in shards;
        the file is the same.
        """
        task = CompletionTask(
            [self.names.relation_id(relation) for relation in relations],
            None if heads is None else [self.names.entity_id(head) for head in heads],
            above,
            self.run.digest,
        )
        report = on_progress or (lambda *_: None)
        if place is None or place.is_here:
            return complete_into(self.model, Path(out), task, resume=resume, on_progress=report)
        trained_on = self.run.dataset.with_valid_in_training() if self.run.trained_on_valid else self.run.dataset
        if trained_on.fingerprint != self.dataset.fingerprint:
            raise SettingsError("facts were added to this reasoner, and a cluster has none of them", remedy="Complete it here.")
        return complete_on(place, self.run, self.model, Path(out), task, resume=resume, on_progress=report)

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
