"""The layers of a drawing of paths: boxes of entities in even layers, labels of relations in odd ones, and where they stand.

Layers follow each other along one axis; the items of a layer stand side by side across it. Which axis is which, the drawing says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hopwalk.reasoning.lettering import clean, text_width, wrapped
from hopwalk.reasoning.values import ReasoningPath

SIZE, LINE = 16.0, 20.0  # the font, and the height of a line, in pixels
NODE_GAP, LABEL_GAP, PORT_GAP = 16.0, 8.0, 13.0
PADDING = 22.0  # of a box, left and right together
BEND = 12.0  # the room of an edge that runs through a layer
SWEEPS = 12


@dataclass(eq=False)
class Item:
    """An item of a layer: an entity's box, a relation's label, or a point that a long edge runs through.

    `along` and `across` are its sizes, and `place` its middle, across the layer.
    """

    layer: int
    text: str = ""
    kind: str = "bend"
    key: str = ""
    lines: list[str] = field(default_factory=list)
    along: float = 0.0
    across: float = BEND
    place: float = 0.0
    before: list[Item] = field(default_factory=list)
    after: list[Item] = field(default_factory=list)


@dataclass(eq=False)
class Curve:
    """A line from a box to a label, or from a label to a box: the items on it in order, and its likelihood."""

    items: list[Item]
    has_head: bool
    weight: float = 0.0

    @property
    def ends_in_box(self) -> bool:
        """Whether it leads from a label to a box."""
        return self.items[0].kind == "label"

    @property
    def box(self) -> Item:
        """The box at one of its ends."""
        return self.items[-1 if self.ends_in_box else 0]


@dataclass(frozen=True)
class _Fact:
    """An edge that paths take, from box to box, walked along its arrow or against it."""

    here: Item
    there: Item
    relation: str
    is_inverse: bool
    is_itself: bool = False

    def __str__(self) -> str:
        one, other = (self.there, self.here) if self.is_inverse else (self.here, self.there)
        return f"{clean(one.text)} —{clean(self.relation)}→ {clean(other.text)}"


@dataclass(frozen=True, eq=False)
class Layers:
    """The items of each layer in their order, the curves between them, and the facts of each label."""

    items: list[list[Item]]
    curves: list[Curve]
    facts: dict[Item, list[str]]


def layers_of(paths: Sequence[ReasoningPath], *, is_sorted: bool = True) -> Layers:
    """The layers of paths; boxes are merged where paths meet at the same hop. Nothing has a size or a place yet.

    Layers are sorted for few crossings, unless that does not matter.
    """
    layers, facts = _boxes(paths)
    curves, facts_by_label = _curves(layers, facts)
    if is_sorted:
        _reduce_crossings(layers)
    return Layers(layers, curves, facts_by_label)


def _boxes(paths: Sequence[ReasoningPath]) -> tuple[list[list[Item]], dict[_Fact, float]]:
    """The boxes by layer, and the facts between them with the likelihood of the paths that take them."""
    hops = max(1, *(len(path.edges) for path in paths))
    layers: list[list[Item]] = [[] for _ in range(2 * hops + 1)]
    boxes: dict[tuple[int, str, str], Item] = {}

    def box(hop: int, entity: str, key: str) -> Item:
        if (hop, entity, key) not in boxes:
            kind = "source" if hop == 0 else "answer" if hop == hops else "entity"
            boxes[hop, entity, key] = Item(2 * hop, entity or " ", kind, key)
            layers[2 * hop].append(boxes[hop, entity, key])
        return boxes[hop, entity, key]

    best = max(path.share for path in paths)
    facts: dict[_Fact, float] = {}
    for path in paths:
        here = box(0, path.head, "")
        likelihood = max(path.share, 0.0) / best if best > 0 else 1.0
        for number, edge in enumerate(path.edges, start=1):
            there = box(hops if number == len(path.edges) else number, edge.entity, edge.key)
            fact = _Fact(here, there, edge.relation, edge.is_inverse)
            facts[fact] = facts.get(fact, 0.0) + likelihood
            here = there
        if not path.edges:
            facts[_Fact(here, box(hops, path.head, ""), "the same", False, is_itself=True)] = likelihood
    return layers, facts


def _curves(layers: list[list[Item]], facts: dict[_Fact, float]) -> tuple[list[Curve], dict[Item, list[str]]]:
    """The curves, and the facts of each label that curves meet in.

    Facts of the same relation share a label where they share the box before it, or after it if that makes fewer labels.
    """
    labels: dict[tuple[object, ...], Item] = {}
    curves: dict[tuple[Item, ...], Curve] = {}
    facts_by_label: dict[Item, list[str]] = {}
    for layer in range(0, len(layers) - 1, 2):
        here = [fact for fact in facts if fact.here.layer == layer]
        by_left = len({(fact.here, fact.relation, fact.is_inverse) for fact in here})
        by_right = len({(fact.there, fact.relation, fact.is_inverse) for fact in here})
        for fact in here:
            key = fact.here if by_left <= by_right else fact.there, fact.relation, fact.is_inverse, layer
            if key not in labels:
                labels[key] = Item(layer + 1, fact.relation or " ", "label")
                layers[layer + 1].append(labels[key])
            label = labels[key]
            facts_by_label.setdefault(label, []).append(str(fact))
            for ends, has_head in (((fact.here, label), fact.is_inverse), ((label, fact.there), not fact.is_inverse)):
                if ends not in curves:
                    curves[ends] = Curve(_through(*ends, layers), has_head and not fact.is_itself)
                curves[ends].weight += facts[fact]
    return list(curves.values()), facts_by_label


def _through(one: Item, other: Item, layers: list[list[Item]]) -> list[Item]:
    """The two items, and points to run through in the layers between them."""
    items = [one, *(Item(layer) for layer in range(one.layer + 1, other.layer)), other]
    for item in items[1:-1]:
        layers[item.layer].append(item)
    for left, right in pairwise(items):
        left.after.append(right)
        right.before.append(left)
    return items


def _reduce_crossings(layers: list[list[Item]]) -> None:
    """Sort each layer by the mean place of its items' neighbours, forward and backward; keep the best order found."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(SWEEPS):
        is_forward = sweep % 2 == 0
        for number in range(1, len(layers)) if is_forward else range(len(layers) - 2, -1, -1):
            places = {item: place for layer in layers for place, item in enumerate(layer)}

            def mean(item: Item, places: dict[Item, int] = places, is_forward: bool = is_forward) -> float:
                near = item.before if is_forward else item.after
                return sum(places[other] for other in near) / len(near) if near else float(places[item])

            layers[number].sort(key=mean)
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _crossings(layers: list[list[Item]]) -> int:
    count = 0
    for left, right in pairwise(layers):
        places = {item: place for place, item in enumerate(right)}
        ends = [(place, places[other]) for place, item in enumerate(left) for other in item.after]
        count += sum(a[0] < b[0] and a[1] > b[1] for a in ends for b in ends)
    return count


# Sizes and places


def set_sizes(layers: Sequence[Sequence[Item]], widest: Sequence[float], *, is_vertical: bool) -> None:
    """Break the texts of each layer into lines of a width, and set the sizes of its items."""
    for layer, most in zip(layers, widest, strict=True):
        for item in layer:
            if item.kind == "bend":
                item.along, item.across = 0.0, BEND
                continue
            is_box = item.kind != "label"
            item.lines = wrapped(item.text, most, SIZE)
            width = max(text_width(line, SIZE) for line in item.lines) + (PADDING if is_box else 8)
            height = LINE * len(item.lines) + (12 if is_box else 2)
            ports = port_room(item) if is_box else 0.0
            width, height = max(width, 52.0 if is_box else 0.0), max(height, 32.0 if is_box else 0.0)
            item.along, item.across = (height, max(width, ports)) if is_vertical else (width, max(height, ports))


def port_room(box: Item) -> float:
    """The room that the curves of a box need, on the side that has more."""
    return PORT_GAP * (max(len(box.before), len(box.after)) - 1) + 18


def gap_between(one: Item, other: Item) -> float:
    """The distance between two items of a layer."""
    return LABEL_GAP if "label" in (one.kind, other.kind) else NODE_GAP


def extent(layer: Sequence[Item]) -> float:
    """The room that a layer needs across."""
    return sum(item.across for item in layer) + sum(gap_between(one, other) for one, other in pairwise(layer))


def set_places(layers: Sequence[Sequence[Item]], room: float | None) -> None:
    """Set the place of every item: near its neighbours, in the order of its layer, without overlap, within 0 to `room`."""
    middle = 0.0 if room is None else room / 2
    for layer in layers:
        _arrange(layer, [middle] * len(layer), room)
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            targets = []
            for item in layer:
                near = item.before + item.after if sweep >= 2 else item.before if sweep == 0 else item.after
                targets.append(sum(other.place for other in near) / len(near) if near else item.place)
            _arrange(layer, targets, room)


def _arrange(layer: Sequence[Item], targets: list[float], room: float | None) -> None:
    """Put the items as near to the targets as their order, their sizes and the room allow, by least squares.

    Items that would overlap form a block, which is put at the mean of its items' targets.
    """
    places = [0.0]
    for one, other in pairwise(layer):
        places.append(places[-1] + (one.across + other.across) / 2 + gap_between(one, other))
    blocks: list[tuple[float, int]] = []  # mean of (target - place), number of items
    for target, place in zip(targets, places, strict=False):
        mean, count = target - place, 1
        while blocks and blocks[-1][0] > mean:
            above, more = blocks.pop()
            mean, count = (mean * count + above * more) / (count + more), count + more
        blocks.append((mean, count))
    starts = [mean for mean, count in blocks for _ in range(count)]
    for item, start, place in zip(layer, starts, places, strict=False):
        item.place = start + place
    if room is not None and layer:
        first, last = layer[0].across / 2, room - layer[-1].across / 2 - places[-1]
        for item, place in zip(layer, places, strict=False):
            item.place = min(max(item.place, first + place), last + place)
