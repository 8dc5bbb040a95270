"""Drawings of paths: a layered graph as a self-contained SVG, from the source to the answers.

A drawing has no style, no script, no references and no ids, only presentation attributes and classes. So a page with a strict
content-security policy can hold it, and several of them. Colours follow the text around it, in light and in dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import sqrt
from urllib.parse import quote

from hopwalk.reasoning.layers import (
    BEND,
    LINE,
    NODE_GAP,
    PADDING,
    PORT_GAP,
    SIZE,
    Curve,
    Item,
    Layers,
    extent,
    layers_of,
    port_room,
    set_places,
    set_sizes,
)
from hopwalk.reasoning.lettering import END_ISOLATE, ISOLATE, clean, isolated, longest_word
from hopwalk.reasoning.values import ReasoningPath
from hopwalk.utils.text import counted

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
WIDEST = 190.0  # the widest a line of text may be
NARROWEST = 100.0  # the widest line, where room is scarce
NARROW = 480.0  # narrower drawings are vertical
MARGIN = 8.0
SOURCE, ANSWER = "#3467c9", "#17805a"  # dark enough on white, light enough on black


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Layers with sizes and places; `starts` and `sizes` are those of each layer along the drawing."""

    layers: Layers
    is_vertical: bool
    starts: list[float]
    sizes: list[float]
    length: float
    breadth: float

    @property
    def items(self) -> list[Item]:
        """All items."""
        return [item for layer in self.layers.items for item in layer]

    def point(self, along: float, across: float) -> str:
        """A point as x and y."""
        return f"{across:.1f} {along:.1f}" if self.is_vertical else f"{along:.1f} {across:.1f}"


def draw_paths(paths: Sequence[ReasoningPath], *, most: int = 12, width: float | None = None, head_key: str = "") -> str:
    """The likeliest `most` of the paths as an `<svg>`; boxes are merged where paths meet at the same hop.

    With a `width` in pixels the drawing is no wider: long names are broken into lines, then the paths run from top to bottom, and
    if the room does not suffice for all, the likeliest that fit are drawn. Arrows point as the facts do: an edge that is walked
    against its arrow has its head at its beginning. Likely paths are thick. Boxes carry the label of their entity as `data-key`,
    percent-encoded; `head_key` is that of the source.

    >>> from hopwalk.reasoning.values import Edge
    >>> draw_paths([ReasoningPath("steroid", (Edge("affects", "cell"),), -0.5)])[:4]
    '<svg'
    """
    shown = sorted(paths, key=lambda path: -path.share)[: max(most, 0)]
    if not shown:
        text = f'<text class="hopwalk-nothing" x="75" y="21" font-size="{SIZE:g}" text-anchor="middle">no path</text>'
        return _svg(150, 32, "no path", "", [text])
    shown, drawing = _fitted(shown, width)
    for item in drawing.layers.items[0]:
        item.key = head_key
    ports = _ports(drawing)
    heaviest = max(curve.weight for curve in drawing.layers.curves)
    drawn = [_group(drawing, label, ports, heaviest) for label in drawing.layers.facts]
    drawn += [_box(drawing, item) for item in drawing.items if item.kind not in ("label", "bend")]
    listed = "; ".join(isolated(str(path), 400) for path in shown)
    count = f"the {len(shown)} likeliest of {len(paths):,} paths" if len(paths) > len(shown) else counted(len(paths), "path")
    about = f"Paths from {isolated(shown[0].head, 60)}: {count}"
    size = (drawing.breadth, drawing.length) if drawing.is_vertical else (drawing.length, drawing.breadth)
    way = " hopwalk-vertical" if drawing.is_vertical else ""
    return _svg(*size, about, way, [f"<desc>{escape(listed)}</desc>", *drawn])


# Fitting


def _fitted(paths: list[ReasoningPath], width: float | None) -> tuple[list[ReasoningPath], _Drawing]:
    """The drawing that fits, and the paths in it."""
    if width is None or width >= NARROW:
        most, layers = WIDEST, layers_of(paths)
        while True:
            drawing = _horizontal(layers, most)
            if width is None or drawing.length <= width:
                return paths, drawing
            if most <= NARROWEST:  # narrower columns are harder to read than paths from top to bottom
                break
            most = max(most * 0.8, NARROWEST)
    room = max(width, NARROWEST + PADDING + 2 * MARGIN) - 2 * MARGIN
    chosen: list[ReasoningPath] = []
    for path in paths:
        if not chosen or all(_least_extent(layer) <= room for layer in layers_of([*chosen, path], is_sorted=False).items):
            chosen.append(path)
    return chosen, _vertical(layers_of(chosen), room)


def _least_extent(layer: Sequence[Item]) -> float:
    """The room that a layer needs across, with the narrowest lines, in whatever order."""
    widths = {"bend": BEND, "label": NARROWEST + 8}
    return sum((widths.get(item.kind) or max(NARROWEST + PADDING, port_room(item))) + NODE_GAP for item in layer) - NODE_GAP


def _horizontal(layers: Layers, most: float) -> _Drawing:
    words = [min(max((longest_word(item.text, SIZE) for item in layer), default=0.0), WIDEST) for layer in layers.items]
    set_sizes(layers.items, [max(most, word) for word in words], is_vertical=False)
    set_places(layers.items, None)
    return _measured(layers, 34.0, is_vertical=False)


def _vertical(layers: Layers, room: float) -> _Drawing:
    for layer in layers.items:
        most = 1.6 * WIDEST
        while True:  # until the layer fits: what short names leave is room for long ones
            set_sizes([layer], [most], is_vertical=True)
            if most <= NARROWEST or extent(layer) <= room:
                break
            most = max(0.95 * most, NARROWEST)
    room = min(room, 1.4 * max(extent(layer) for layer in layers.items) + 60)  # of a wide page, no more than looks connected
    set_places(layers.items, max(room, *(extent(layer) for layer in layers.items)))
    return _measured(layers, 20.0, is_vertical=True)


def _measured(layers: Layers, strip: float, *, is_vertical: bool) -> _Drawing:
    """The drawing with its layers one after the other, and all items moved to its margin."""
    sizes = [max((item.along for item in layer), default=0.0) for layer in layers.items]
    starts = [MARGIN + sum(sizes[:number]) + strip * number for number in range(len(sizes))]
    items = [item for layer in layers.items for item in layer]
    first = min(item.place - item.across / 2 for item in items) - MARGIN
    for item in items:
        item.place -= first
    breadth = max(item.place + item.across / 2 for item in items) + MARGIN
    return _Drawing(layers, is_vertical, starts, sizes, starts[-1] + sizes[-1] + MARGIN, breadth)


def _ports(drawing: _Drawing) -> dict[Curve, float]:
    """The place at which each curve leaves or reaches its box."""
    ports = {}
    for item in drawing.items:
        for is_end in (False, True):
            own = [curve for curve in drawing.layers.curves if curve.box is item and curve.ends_in_box is is_end]
            own.sort(key=lambda curve: curve.items[-2 if curve.ends_in_box else 1].place)
            for number, curve in enumerate(own):
                ports[curve] = item.place + PORT_GAP * (number - (len(own) - 1) / 2)
    return ports


# SVG


def _svg(width: float, height: float, about: str, way: str, content: list[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="hopwalk-paths{way}" role="img" aria-label="{escape(about)}" {size}'
    return f'{head} font-family="{FONT}" fill="currentColor">{"".join(content)}</svg>'


def _box(drawing: _Drawing, item: Item) -> str:
    colour = {"source": SOURCE, "answer": ANSWER}.get(item.kind, "currentColor")
    strength = 'fill-opacity="0.05" stroke-opacity="0.35"' if item.kind == "entity" else 'fill-opacity="0.14"'
    start, size = drawing.starts[item.layer], drawing.sizes[item.layer]
    left, top, width, height = start, item.place - item.across / 2, size, item.across
    if drawing.is_vertical:
        left, top, width, height = top, left, height, width
    shape = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="9"'
    weight = "" if item.kind == "entity" else ' font-weight="600"'
    text = _text(item, left + width / 2, top + height / 2, "hopwalk-name", weight)
    rectangle = f'<rect {shape} fill="{colour}" stroke="{colour}" stroke-width="1.2" {strength}/>'
    key = f' data-key="{quote(item.key, safe="", errors="surrogatepass")}"' if item.key else ""
    return f'<g class="hopwalk-{item.kind}"{key}><title>{escape(clean(item.text))}</title>{rectangle}{text}</g>'


def _group(drawing: _Drawing, label: Item, ports: dict[Curve, float], heaviest: float) -> str:
    """A label with its curves."""
    middle = drawing.starts[label.layer] + drawing.sizes[label.layer] / 2
    x, y = (label.place, middle) if drawing.is_vertical else (middle, label.place)
    text = _text(label, x, y, "hopwalk-relation")
    own = [curve for curve in drawing.layers.curves if label in (curve.items[0], curve.items[-1])]
    drawn = "".join(_drawn(drawing, curve, label, ports[curve], sqrt(curve.weight / heaviest)) for curve in own)
    return f'<g class="hopwalk-edge"><title>{escape(_lines(drawing.layers.facts[label]))}</title>{drawn}{text}</g>'


def _drawn(drawing: _Drawing, curve: Curve, label: Item, port: float, share: float) -> str:
    """The curve between a label and a box, with the arrow head at the box."""
    point, starts, sizes = drawing.point, drawing.starts, drawing.sizes
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    thickness, opacity = 1.0 + 2.2 * share, 0.4 + 0.5 * share
    length = 6.0 + 1.5 * thickness
    half, middle = label.along / 2, (starts[label.layer] + ends[label.layer]) / 2
    box, back = curve.box, length - 1 if curve.has_head else 0.0
    if curve.ends_in_box:
        tip, way = starts[box.layer], -length
        at, place = ends[label.layer], label.place
        line = f"M{point(middle + half, place)} L{point(at, place)}"
        for item in curve.items[1:-1]:
            line += _bend(drawing, at, place, starts[item.layer], item.place) + f" L{point(ends[item.layer], item.place)}"
            at, place = ends[item.layer], item.place
        line += _bend(drawing, at, place, tip - back, port)
    else:
        tip, way = ends[box.layer], length
        line = f"M{point(tip + back, port)}" + _bend(drawing, tip + back, port, starts[label.layer], label.place)
        line += f" L{point(middle - half, label.place)}"
    stroke = f'fill="none" stroke="currentColor" stroke-width="{thickness:.1f}" stroke-opacity="{opacity:.2f}"'
    sides = f"l{point(way, length / 2)} {'h' if drawing.is_vertical else 'v'}{-length:.1f} z"
    head = f'<path d="M{point(tip, port)} {sides}" fill-opacity="{opacity:.2f}"/>'
    return f'<path d="{line}" {stroke}/>{head if curve.has_head else ""}'


def _bend(drawing: _Drawing, along: float, across: float, to_along: float, to_across: float) -> str:
    middle, point = (along + to_along) / 2, drawing.point
    return f" C{point(middle, across)} {point(middle, to_across)} {point(to_along, to_across)}"


def _lines(texts: list[str]) -> str:
    return "\n".join(f"{ISOLATE}{text}{END_ISOLATE}" for text in texts)


def _text(item: Item, x: float, y: float, name: str, more: str = "") -> str:
    """The lines of an item, centred, each isolated, so that right-to-left names do not disturb the text around them."""
    top = y - LINE * (len(item.lines) - 1) / 2 + 0.35 * SIZE
    return "".join(
        f'<text class="{name}" x="{x:.1f}" y="{top + LINE * number:.1f}" font-size="{SIZE:g}" text-anchor="middle"{more}>'
        f"{escape(f'{ISOLATE}{line}{END_ISOLATE}')}</text>"
        for number, line in enumerate(item.lines)
    )
