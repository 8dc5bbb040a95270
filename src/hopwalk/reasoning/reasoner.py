"""A trained walker with all that can be asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hopwalk.data.findings import counted
from hopwalk.reasoning.asking import ask, ask_many
from hopwalk.reasoning.completing import Completed, OnProgress, complete_into
from hopwalk.reasoning.explaining import Explanation, explain
from hopwalk.reasoning.facts import LabelledFact, extended, read_facts
from hopwalk.reasoning.results import Answers
from hopwalk.reasoning.rule_mining import UsedRule, used_rules
from hopwalk.walker.runs import TrainedWalker, load_walker


@dataclass(frozen=True, repr=False, eq=False)
class LoadedWalker(TrainedWalker):
    """A trained walker to ask: `walker = hopwalk.load(run)`.

    Entities and relations are named as in the data or by their readable names, and found but for case, blanks, hyphens and
    underscores. `relation⁻¹` is the inverse of a relation.
    """

    @classmethod
    def of(cls, run: str | Path) -> LoadedWalker:
        """The walker of a run folder."""
        return cls(**vars(load_walker(run)))

    def __repr__(self) -> str:
        data, walk = self.dataset, self.settings.walk
        counts = {"entity": len(data.entities), "relation": len(data.relations), "fact": len(data.facts)}
        size = ", ".join(counted(count, noun) for noun, count in counts.items())
        helped = "with a scorer" if self.opinions else "without a scorer"
        return f"LoadedWalker({data.name!r}: {size}; {counted(walk.hops, 'hop')}, beam {walk.beam}, {helped})"

    @property
    def card(self) -> str:
        """What the run is and how it was trained, as Markdown; empty where the run has no card."""
        path = self.run.path / "card.md"
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def ask(self, head: str, relation: str, *, k: int = 10, num_paths: int = 3, only_new: bool = False) -> Answers:
        """The `k` best answers of `(head, relation, ?)`, each with its best paths.

        They are ranked by the blend of paths and scorer; by paths alone where the walker has no scorer. Facts of the graph are
        among them, marked as known, unless `only_new` leaves them out.
        """
        return ask(self, head, relation, k=k, num_paths=num_paths, only_new=only_new)

    def ask_many(
        self, questions: Iterable[tuple[str, str]], *, k: int = 10, num_paths: int = 3, only_new: bool = False
    ) -> list[Answers]:
        """The answers of many questions `(head, relation)`: the same as one after the other, and several times faster."""
        return ask_many(self, list(questions), k=k, num_paths=num_paths, only_new=only_new)

    def explain(self, head: str, relation: str, tail: str, *, num_paths: int = 5) -> Explanation:
        """Why `tail` answers `(head, relation, ?)`: its paths, their rules, how often these hold; or why not."""
        return explain(self, head, relation, tail, num_paths=num_paths)

    def rules(self, relation: str, *, split: str = "", k: int = 20) -> list[UsedRule]:
        """The rules that the walker uses for a relation, over its dev questions (or those of `split`), most used first."""
        return used_rules(self, relation, split=split, k=k)

    def complete(
        self,
        out: str | Path,
        *,
        relations: Sequence[str] = (),
        above: float = 0.5,
        resume: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Completed:
        """Write the facts that the walker finds missing to a .tsv, .parquet or .nt file, with confidence and best path.

        Asked is `(head, relation, ?)` for every head of a fact of the relation; with `resume`, what was interrupted goes on.
        """
        watched = on_progress or (lambda *_: None)
        return complete_into(self, Path(out), relations=relations, above=above, resume=resume, on_progress=watched)

    def with_facts(self, facts: str | Path | Iterable[LabelledFact]) -> LoadedWalker:
        """The walker with more facts, of a file that hopwalk can read or as `(head, relation, tail)`; this one stays as it is.

        They are walked, marked as known, and counted for rules. Nothing is trained: entities and relations must be known ones.
        """
        if isinstance(facts, str | Path):
            return extended(self, read_facts(Path(facts))[0], source=Path(facts))
        return extended(self, facts)
