"""From the names that people give to ids, and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hopwalk.data.dataset import Dataset
from hopwalk.data.names import NameIndex
from hopwalk.errors import UnknownNameError
from hopwalk.reasoning.values import INVERSE


@dataclass(frozen=True)
class Names:
    """The names of a data set's entities and relations; `relation⁻¹` is the inverse of a relation."""

    dataset: Dataset

    @cached_property
    def entities(self) -> NameIndex:
        """Finds entities."""
        return NameIndex(self.dataset.entities, "entity")

    @cached_property
    def relations(self) -> NameIndex:
        """Finds relations, without their inverses."""
        return NameIndex(self.dataset.relations, "relation")

    def entity_id(self, text: str) -> int:
        """The entity of that name: exact, or apart from case, blanks, hyphens and underscores."""
        return self.entities.id(text)

    def relation_id(self, text: str) -> int:
        """The relation of that name, or its inverse if the name ends in ⁻¹."""
        if not isinstance(text, str) or text in self.dataset.relations:
            return self.relations.id(text)
        relation_id, ids = self.relations.id(text.removesuffix(INVERSE)), self.dataset.relation_ids
        return ids.inverse(relation_id) if text.endswith(INVERSE) else relation_id

    def query_ids(self, head: str, relation: str) -> tuple[int, int]:
        """The ids of a query; an error names everything in it that is not known."""
        ids, errors = [], []
        for find, text in ((self.entity_id, head), (self.relation_id, relation)):
            try:
                ids.append(find(text))
            except UnknownNameError as error:
                errors.append(error)
        if errors:
            problems, remedies = (
                list(dict.fromkeys(texts)) for texts in zip(*((e.problem, e.remedy) for e in errors), strict=True)
            )
            raise UnknownNameError("; ".join(problems), remedy=" ".join(remedies))
        return ids[0], ids[1]

    def relation_key(self, relation_id: int) -> str:
        """The label of a relation in the data, with ⁻¹ at its end if it is an inverse."""
        ids, labels = self.dataset.relation_ids, self.dataset.relations
        return labels[ids.inverse(relation_id)] + INVERSE if ids.is_inverse(relation_id) else labels[relation_id]

    def relation_name(self, relation_id: int) -> str:
        """The readable name of a relation, with ⁻¹ at its end if it is an inverse."""
        name, is_inverse = relation_label(self.dataset, relation_id)
        return f"{name}{INVERSE}" if is_inverse else name


def relation_label(dataset: Dataset, relation_id: int) -> tuple[str, bool]:
    """The readable name of a relation, or of the one it is the inverse of, and whether it is an inverse."""
    ids = dataset.relation_ids
    is_inverse = bool(ids.is_inverse(relation_id))
    return dataset.relations.name(ids.inverse(relation_id) if is_inverse else relation_id), is_inverse
