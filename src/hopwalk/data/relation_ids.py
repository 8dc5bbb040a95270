"""The ids of inverse, stay and start relations. Nothing else in the package adds or subtracts numbers of relations.

With R relations in the data: 0 … R−1 are the relations themselves, R … 2R−1 their inverses, 2R is the stay relation of the
edge from every entity to itself, and 2R+1 is the start relation r₀ that opens every walk (§2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, cast

Ids = TypeVar("Ids")  # an int, a numpy array or a torch tensor of relation ids


@dataclass(frozen=True)
class RelationIds:
    """The ids of the relations of a walk, given the number of relations in the data.

    >>> ids = RelationIds(num_relations=46)
    >>> ids.inverse(3), ids.inverse(49), ids.stay_id, ids.start_id, ids.num_all
    (49, 3, 92, 93, 94)
    """

    num_relations: int

    @property
    def num_directed(self) -> int:
        """The number of relations and inverses."""
        return 2 * self.num_relations

    @property
    def stay_id(self) -> int:
        """The relation of the edge from an entity to itself."""
        return 2 * self.num_relations

    @property
    def start_id(self) -> int:
        """The relation r₀ that opens every walk."""
        return 2 * self.num_relations + 1

    @property
    def num_all(self) -> int:
        """The number of rows of a table of relation embeddings."""
        return 2 * self.num_relations + 2

    def inverse(self, ids: Ids) -> Ids:
        """The inverse of each relation, and for an inverse the relation itself. Not for the stay and start relations."""
        return cast("Ids", (cast("Any", ids) + self.num_relations) % self.num_directed)

    def is_inverse(self, ids: Any) -> Any:
        """Whether each relation is the inverse of one in the data."""
        return (ids >= self.num_relations) & (ids < self.num_directed)
