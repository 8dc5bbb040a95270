"""Drawings of paths: a layered graph as a self-contained SVG, the source on the left, the answers on the right.

A drawing has no style, no script, no references and no ids, only presentation attributes and classes. So a page with a strict
content-security policy can hold it, and several of them. Colours follow the text around it, in light and in dark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from math import sqrt

from hopwalk.reasoning.values import ReasoningPath
from hopwalk.utils.text import counted

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
NODE_SIZE, LABEL_SIZE = 13.0, 11.5  # font sizes in pixels
NODE_WIDTH, LABEL_WIDTH = 190.0, 180.0  # the widest a text may be
STRIP = 34.0  # the space for curves, between boxes and labels
MARGIN, NODE_GAP, LABEL_GAP, PORT_GAP = 8.0, 16.0, 7.0, 13.0
SOURCE, ANSWER = "#3467c9", "#17805a"  # dark enough on white, light enough on black
SWEEPS = 12
BIDI_CONTROLS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
ISOLATE, END_ISOLATE = "\u2068", "\u2069"


@dataclass(eq=False)
class _Item:
    """An item of a layer: an entity's box, a relation's label, or a point that a long edge runs through."""

    layer: int
    text: str = ""
    kind: str = "bend"
    y: float = 0.0
    height: float = 12.0
    before: list[_Item] = field(default_factory=list)
    after: list[_Item] = field(default_factory=list)


@dataclass(eq=False)
class _Curve:
    """A line from a box to a label, or from a label to a box: the items on it from left to right, and its likelihood."""

    items: list[_Item]
    has_head: bool
    weight: float = 0.0

    @property
    def ends_in_box(self) -> bool:
        """Whether it leads from a label to a box."""
        return self.items[0].kind == "label"

    @property
    def box(self) -> _Item:
        """The box at one of its ends."""
        return self.items[-1 if self.ends_in_box else 0]


@dataclass(frozen=True)
class _Fact:
    """An edge that paths take, from box to box, walked along its arrow or against it."""

    here: _Item
    there: _Item
    relation: str
    is_inverse: bool
    is_itself: bool = False

    def __str__(self) -> str:
        one, other = (self.there, self.here) if self.is_inverse else (self.here, self.there)
        return f"{clean(one.text)} —{clean(self.relation)}→ {clean(other.text)}"


def draw_paths(paths: Sequence[ReasoningPath], *, most: int = 12) -> str:
    """The likeliest `most` of the paths as an `<svg>`; boxes are merged where paths meet at the same hop.

    Arrows point as the facts do: an edge that is walked against its arrow has its head on the left. Likely paths are thick.

    >>> from hopwalk.reasoning.values import Edge
    >>> draw_paths([ReasoningPath("steroid", (Edge("affects", "cell"),), -0.5)])[:4]
    '<svg'
    """
    shown = sorted(paths, key=lambda path: -path.share)[: max(most, 0)]
    if not shown:
        return _svg(150, 30, "no path", [_text("no path", 75, 19.5, LABEL_SIZE, LABEL_WIDTH, "hopwalk-nothing")])
    layers, facts = _boxes(shown)
    curves, facts_by_label = _curves(layers, facts)
    _reduce_crossings(layers)
    _place(layers)
    widths = [_layer_width(layer, number) for number, layer in enumerate(layers)]
    lefts = [MARGIN + sum(widths[:number]) + STRIP * number for number in range(len(layers))]
    top = min(item.y - item.height / 2 for layer in layers for item in layer) - MARGIN
    for item in (item for layer in layers for item in layer):
        item.y -= top
    height = max(item.y + item.height / 2 for layer in layers for item in layer) + MARGIN
    ports = _ports(layers, curves)
    heaviest = max(curve.weight for curve in curves)
    drawn = [_group(label, names, curves, ports, lefts, widths, heaviest) for label, names in facts_by_label.items()]
    drawn += [_box(item, lefts[item.layer], widths[item.layer]) for layer in layers[::2] for item in layer if item.text]
    listed = "; ".join(_isolated(str(path), 400) for path in shown)
    count = f"the {most} likeliest of {len(paths):,} paths" if len(paths) > most else counted(len(paths), "path")
    about = f"Paths from {_isolated(shown[0].head, 60)}: {count}"
    return _svg(lefts[-1] + widths[-1] + MARGIN, height, about, [f"<desc>{escape(listed)}</desc>", *drawn])


# Layers: boxes in even ones, labels of relations in odd ones


def _boxes(paths: Sequence[ReasoningPath]) -> tuple[list[list[_Item]], dict[_Fact, float]]:
    """The boxes by layer, and the facts between them with the likelihood of the paths that take them."""
    hops = max(1, *(len(path.edges) for path in paths))
    layers: list[list[_Item]] = [[] for _ in range(2 * hops + 1)]
    boxes: dict[tuple[int, str], _Item] = {}

    def box(hop: int, entity: str) -> _Item:
        if (hop, entity) not in boxes:
            kind = "source" if hop == 0 else "answer" if hop == hops else "entity"
            boxes[hop, entity] = _Item(2 * hop, entity or " ", kind)
            layers[2 * hop].append(boxes[hop, entity])
        return boxes[hop, entity]

    best = max(path.share for path in paths)
    facts: dict[_Fact, float] = {}
    for path in paths:
        here = box(0, path.head)
        likelihood = max(path.share, 0.0) / best if best > 0 else 1.0
        for number, edge in enumerate(path.edges, start=1):
            there = box(hops if number == len(path.edges) else number, edge.entity)
            fact = _Fact(here, there, edge.relation, edge.is_inverse)
            facts[fact] = facts.get(fact, 0.0) + likelihood
            here = there
        if not path.edges:
            facts[_Fact(here, box(hops, path.head), "the same", False, is_itself=True)] = likelihood
    return layers, facts


def _curves(layers: list[list[_Item]], facts: dict[_Fact, float]) -> tuple[list[_Curve], dict[_Item, list[str]]]:
    """The curves, and the facts of each label that curves meet in.

    Facts of the same relation share a label where they share the box on its left, or on its right if that makes fewer labels.
    """
    labels: dict[tuple[object, ...], _Item] = {}
    curves: dict[tuple[_Item, ...], _Curve] = {}
    facts_by_label: dict[_Item, list[str]] = {}
    for layer in range(0, len(layers) - 1, 2):
        here = [fact for fact in facts if fact.here.layer == layer]
        by_left = len({(fact.here, fact.relation, fact.is_inverse) for fact in here})
        by_right = len({(fact.there, fact.relation, fact.is_inverse) for fact in here})
        for fact in here:
            key = fact.here if by_left <= by_right else fact.there, fact.relation, fact.is_inverse, layer
            if key not in labels:
                labels[key] = _Item(layer + 1, fact.relation or " ", "label", height=18.0)
                layers[layer + 1].append(labels[key])
            label = labels[key]
            facts_by_label.setdefault(label, []).append(str(fact))
            for ends, has_head in (((fact.here, label), fact.is_inverse), ((label, fact.there), not fact.is_inverse)):
                if ends not in curves:
                    curves[ends] = _Curve(_through(*ends, layers), has_head and not fact.is_itself)
                curves[ends].weight += facts[fact]
    for item in (item for layer in layers[::2] for item in layer if item.text):
        item.height = max(30.0, PORT_GAP * (max(len(item.before), len(item.after)) - 1) + 18)
    return list(curves.values()), facts_by_label


def _through(one: _Item, other: _Item, layers: list[list[_Item]]) -> list[_Item]:
    """The two items, and points to run through in the layers between them."""
    items = [one, *(_Item(layer) for layer in range(one.layer + 1, other.layer)), other]
    for item in items[1:-1]:
        layers[item.layer].append(item)
    for left, right in pairwise(items):
        left.after.append(right)
        right.before.append(left)
    return items


def _reduce_crossings(layers: list[list[_Item]]) -> None:
    """Sort each layer by the mean place of its items' neighbours, forward and backward; keep the best order found."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(SWEEPS):
        is_forward = sweep % 2 == 0
        for number in range(1, len(layers)) if is_forward else range(len(layers) - 2, -1, -1):
            places = {item: place for layer in layers for place, item in enumerate(layer)}

            def mean(item: _Item, places: dict[_Item, int] = places, is_forward: bool = is_forward) -> float:
                near = item.before if is_forward else item.after
                return sum(places[other] for other in near) / len(near) if near else float(places[item])

            layers[number].sort(key=mean)
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _crossings(layers: list[list[_Item]]) -> int:
    count = 0
    for left, right in pairwise(layers):
        places = {item: place for place, item in enumerate(right)}
        ends = [(place, places[other]) for place, item in enumerate(left) for other in item.after]
        count += sum(a[0] < b[0] and a[1] > b[1] for a in ends for b in ends)
    return count


def _place(layers: list[list[_Item]]) -> None:
    """Set the y of every item: near its neighbours, in the order of its layer, without overlap."""
    for layer in layers:
        _arrange(layer, [0.0] * len(layer))
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            targets = []
            for item in layer:
                near = item.before + item.after if sweep >= 2 else item.before if sweep == 0 else item.after
                targets.append(sum(other.y for other in near) / len(near) if near else item.y)
            _arrange(layer, targets)


def _arrange(layer: list[_Item], targets: list[float]) -> None:
    """Put the items as near to the target heights as their order and size allow, by least squares.

    Items that would overlap form a block, which is put at the mean of its items' targets.
    """
    places = [0.0]
    for one, other in pairwise(layer):
        gap = LABEL_GAP if "label" in (one.kind, other.kind) else NODE_GAP
        places.append(places[-1] + (one.height + other.height) / 2 + gap)
    blocks: list[tuple[float, int]] = []  # mean of (target - place), number of items
    for target, place in zip(targets, places, strict=True):
        mean, count = target - place, 1
        while blocks and blocks[-1][0] > mean:
            above, more = blocks.pop()
            mean, count = (mean * count + above * more) / (count + more), count + more
        blocks.append((mean, count))
    starts = [mean for mean, count in blocks for _ in range(count)]
    for item, start, place in zip(layer, starts, places, strict=True):
        item.y = start + place


def _layer_width(layer: list[_Item], number: int) -> float:
    if number % 2:
        return max(_width(_fitted(item.text, LABEL_WIDTH, LABEL_SIZE), LABEL_SIZE) for item in layer) + 12
    return max(52.0, *(_width(_fitted(item.text, NODE_WIDTH, NODE_SIZE), NODE_SIZE) + 22 for item in layer))


def _ports(layers: list[list[_Item]], curves: list[_Curve]) -> dict[_Curve, float]:
    """The height at which each curve leaves or reaches its box."""
    ports = {}
    for item in (item for layer in layers[::2] for item in layer):
        for is_end in (False, True):
            own = [curve for curve in curves if curve.box is item and curve.ends_in_box is is_end]
            own.sort(key=lambda curve: curve.items[-2 if curve.ends_in_box else 1].y)
            for number, curve in enumerate(own):
                ports[curve] = item.y + PORT_GAP * (number - (len(own) - 1) / 2)
    return ports


# SVG


def _svg(width: float, height: float, about: str, content: list[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="hopwalk-paths" role="img" aria-label="{escape(about)}" {size}'
    return f'{head} font-family="{FONT}" fill="currentColor">{"".join(content)}</svg>'


def _box(item: _Item, left: float, width: float) -> str:
    colour = {"source": SOURCE, "answer": ANSWER}.get(item.kind, "currentColor")
    strength = 'fill-opacity="0.05" stroke-opacity="0.35"' if item.kind == "entity" else 'fill-opacity="0.14"'
    shape = f'x="{left:.1f}" y="{item.y - item.height / 2:.1f}" width="{width:.1f}" height="{item.height:.1f}" rx="9"'
    weight = "" if item.kind == "entity" else ' font-weight="600"'
    text = _text(item.text, left + width / 2, item.y + 0.35 * NODE_SIZE, NODE_SIZE, NODE_WIDTH, "hopwalk-name", weight)
    rectangle = f'<rect {shape} fill="{colour}" stroke="{colour}" stroke-width="1.2" {strength}/>'
    return f'<g class="hopwalk-{item.kind}"><title>{escape(clean(item.text))}</title>{rectangle}{text}</g>'


def _group(
    label: _Item,
    facts: list[str],
    curves: list[_Curve],
    ports: dict[_Curve, float],
    lefts: list[float],
    widths: list[float],
    heaviest: float,
) -> str:
    """A label with its curves."""
    middle = lefts[label.layer] + widths[label.layer] / 2
    text = _text(label.text, middle, label.y + 0.35 * LABEL_SIZE, LABEL_SIZE, LABEL_WIDTH, "hopwalk-relation")
    own = [curve for curve in curves if label in (curve.items[0], curve.items[-1])]
    drawn = "".join(_drawn(curve, label, ports[curve], lefts, widths, sqrt(curve.weight / heaviest)) for curve in own)
    return f'<g class="hopwalk-edge"><title>{escape(_lines(facts))}</title>{drawn}{text}</g>'


def _drawn(curve: _Curve, label: _Item, port: float, lefts: list[float], widths: list[float], share: float) -> str:
    """The curve between a label and a box, with the arrow head at the box."""
    thickness, opacity = 1.0 + 2.2 * share, 0.4 + 0.5 * share
    length = 6.0 + 1.5 * thickness
    half = _width(_fitted(label.text, LABEL_WIDTH, LABEL_SIZE), LABEL_SIZE) / 2 + 4
    middle, right = lefts[label.layer] + widths[label.layer] / 2, lefts[label.layer] + widths[label.layer]
    box, back = curve.box, length - 1 if curve.has_head else 0.0
    if curve.ends_in_box:
        tip, along = lefts[box.layer], -length
        line, x, y = f"M{middle + half:.1f} {label.y:.1f} H{right:.1f}", right, label.y
        for item in curve.items[1:-1]:
            line += _bend(x, y, lefts[item.layer], item.y) + f" H{lefts[item.layer] + widths[item.layer]:.1f}"
            x, y = lefts[item.layer] + widths[item.layer], item.y
        line += _bend(x, y, tip - back, port)
    else:
        tip, along = lefts[box.layer] + widths[box.layer], length
        line = f"M{tip + back:.1f} {port:.1f}" + _bend(tip + back, port, lefts[label.layer], label.y) + f" H{middle - half:.1f}"
    stroke = f'fill="none" stroke="currentColor" stroke-width="{thickness:.1f}" stroke-opacity="{opacity:.2f}"'
    head = f'<path d="M{tip:.1f} {port:.1f} l{along:.1f} {length / 2:.1f} v{-length:.1f} z" fill-opacity="{opacity:.2f}"/>'
    return f'<path d="{line}" {stroke}/>{head if curve.has_head else ""}'


def _bend(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f" C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"


def _lines(texts: list[str]) -> str:
    return "\n".join(f"{ISOLATE}{text}{END_ISOLATE}" for text in texts)


# Text


def _text(text: str, x: float, y: float, size: float, most: float, name: str, more: str = "") -> str:
    """Centred text, cut to a width, and isolated, so that right-to-left names do not disturb the text around them."""
    written = escape(f"{ISOLATE}{_fitted(text, most, size)}{END_ISOLATE}")
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="middle"{more}>{written}</text>'


def clean(text: str) -> str:
    """The text without characters that SVG forbids or that change the writing direction."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_harmful(char) else char for char in text)


def _is_harmful(char: str) -> bool:
    return char in BIDI_CONTROLS or unicodedata.category(char) in ("Cc", "Cs") or ord(char) & 0xFFFE == 0xFFFE


def _isolated(text: str, most: int) -> str:
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return f"{ISOLATE}{clean(cut)}{END_ISOLATE}"


def _fitted(text: str, most: float, size: float) -> str:
    """The text cut to a width, with an ellipsis; addresses, whose end matters most, are cut at their beginning."""
    is_cut_first, is_long = _is_address(text), len(text) > 200
    text = clean(text[-200:] if is_cut_first else text[:200])
    if not is_long and _width(text, size) <= most:
        return text
    letters = list(reversed(text)) if is_cut_first else list(text)
    taken, width = 0, _width("…", size)
    while taken < len(letters) and width + _width(letters[taken], size) <= most:
        width += _width(letters[taken], size)
        taken += 1
    if is_cut_first:
        return f"…{text[len(text) - taken :]}"
    return f"{text[:taken].rstrip(' _-')}…"


def _is_address(text: str) -> bool:
    """Whether the text is something like `/people/person/profession` or `http://example.org/knows`."""
    return "/" in text and " " not in text


def _width(text: str, size: float) -> float:
    """The approximate width of the text in pixels, rather too wide than too narrow."""
    return size * sum(_letter_width(char) for char in text)


def _letter_width(char: str) -> float:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(char) in ("W", "F"):
        return 1.05
    if char in "ijl.,:;'|!()[] ":
        return 0.36
    if char in "mwMW@%—…":
        return 0.98
    return 0.72 if char.isupper() else 0.61
