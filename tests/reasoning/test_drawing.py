"""Drawings of paths: boxes and labels that do not overlap, arrows in the direction of the facts, and harmless labels."""

import re
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwalk.reasoning.drawing import draw_paths
from hopwalk.reasoning.values import Edge, ReasoningPath

SVG = "{http://www.w3.org/2000/svg}"
STEROID = [
    ReasoningPath("steroid", (Edge("affects", "cell"), Edge("affects", "eicosanoid", is_inverse=True)), -0.5),
    ReasoningPath("steroid", (Edge("affects", "gene"), Edge("disrupts", "hormone", is_inverse=True)), -1.0),
    ReasoningPath("steroid", (Edge("affects", "cell"), Edge("produces", "hormone")), -1.5),
    ReasoningPath("steroid", (Edge("interacts_with", "eicosanoid"),), -2.0),
]
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "]]><!--",
    "&amp;&#0;",
    "\x00\x1b[31m\ud800\uffff",
    "שלום עולם",
    "\u202eevil\u2069",
    "x" * 10_000,
    "https://example.org/" + "y" * 10_000,
    "",
    " ",
    "日本語" * 50,
]


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: "Box") -> bool:
        is_apart = self.x + self.width <= other.x or other.x + other.width <= self.x
        return not is_apart and not (self.y + self.height <= other.y or other.y + other.height <= self.y)


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def names(svg: str, kind: str) -> list[str]:
    return [group.findtext(f"{SVG}title", "") for group in parsed(svg).iter(f"{SVG}g") if group.get("class") == f"hopwalk-{kind}"]


def boxes(svg: str) -> list[Box]:
    return [Box(*(float(rect.get(name, "")) for name in Box._fields)) for rect in parsed(svg).iter(f"{SVG}rect")]


def labels(svg: str) -> list[Box]:
    """The approximate places of the labels of edges."""
    found = [text for text in parsed(svg).iter(f"{SVG}text") if text.get("class") == "hopwalk-relation"]
    places = [(float(text.get("x", "")), float(text.get("y", "")), 3.0 * len(text.text or "")) for text in found]
    return [Box(x - half, y - 9, 2 * half, 12) for x, y, half in places]


def lines_of(svg: str, kind: str) -> list[str]:
    """The lines of text of a kind, without their isolation."""
    return [(text.text or "")[1:-1] for text in parsed(svg).iter(f"{SVG}text") if text.get("class") == f"hopwalk-{kind}"]


def test_source_left_answers_right_and_boxes_merged():
    svg = draw_paths(STEROID)
    assert names(svg, "source") == ["steroid"] and sorted(names(svg, "entity")) == ["cell", "gene"]
    assert sorted(names(svg, "answer")) == ["eicosanoid", "hormone"]  # the short path ends there too
    columns = {rect.get("fill"): float(rect.get("x", "")) for rect in parsed(svg).iter(f"{SVG}rect")}
    assert columns["#3467c9"] < columns["currentColor"] < columns["#17805a"]


def test_tooltips_give_facts_in_their_own_direction():
    tooltips = "\n".join(names(draw_paths(STEROID), "edge"))
    for fact in ("eicosanoid —affects→ cell", "hormone —disrupts→ gene", "cell —produces→ hormone"):
        assert fact in tooltips


def heads_of(svg: str) -> list[tuple[float, float]]:
    """The x of the tip of each arrow head, and its length, negative if it points to the right."""
    return [(float(tip), float(back)) for tip, back in re.findall(r'd="M([\d.]+) [\d.]+ l(-?[\d.]+) ', svg)]


def test_arrows_of_inverse_edges_point_back():
    ((forth, back),) = heads_of(draw_paths([ReasoningPath("a", (Edge("r", "b"),), -1.0)]))
    left, right = boxes(draw_paths([ReasoningPath("a", (Edge("r", "b"),), -1.0)]))
    assert forth == right.x and back < 0
    ((tip, back),) = heads_of(draw_paths([ReasoningPath("a", (Edge("r", "b", is_inverse=True),), -1.0)]))
    assert tip == left.x + left.width and back > 0


def test_likely_paths_are_thick():
    widths = [
        float(width) for width in re.findall(r'stroke="currentColor" stroke-width="([\d.]+)" stroke-opacity', draw_paths(STEROID))
    ]
    assert max(widths) == pytest.approx(3.2) and min(widths) < 2.5
    flat = draw_paths([ReasoningPath("a", (Edge("r", "b"),), float("-inf"))])
    assert 'stroke-width="3.2"' in flat


NAMES = [
    "cell",
    "amino_acid,_peptide,_or_protein",
    "organ or tissue function",
    "Pneumonoultramicroscopicsilicovolcanoconiosis",
    "日本語" * 9,
]
STEPS = st.tuples(
    st.sampled_from(["r", "interacts_with", "/people/person/places_lived./people/place_lived/location"]),
    st.sampled_from(NAMES),
    st.booleans(),
)


@given(
    st.lists(st.lists(STEPS, min_size=1, max_size=8), min_size=1, max_size=14), st.sampled_from([240, 320, 358, 600, 720, 1100])
)
def test_a_drawing_fits_its_width(paths: list[list[tuple[str, str, bool]]], width: int):
    drawn = [ReasoningPath(NAMES[1], tuple(Edge(*edge) for edge in path), 1 / (1 + n)) for n, path in enumerate(paths)]
    svg = draw_paths(drawn, width=width)
    whole, shapes = parsed(svg), boxes(svg)
    assert float(whole.get("width", "")) <= width
    assert all(
        box.x >= 0 and box.x + box.width <= width and box.y + box.height <= float(whole.get("height", "")) for box in shapes
    )
    assert not [pair for pair in combinations(shapes, 2) if pair[0].overlaps(pair[1])]
    assert {text.get("font-size") for text in whole.iter(f"{SVG}text")} == {"16"}
    assert drawn[0].edges[-1].entity in names(svg, "answer")  # the likeliest path is always there, with its answer
    assert width >= 480 or "hopwalk-vertical" in (whole.get("class") or "")


def test_a_narrow_drawing_runs_from_top_to_bottom():
    wide, narrow = draw_paths(STEROID, width=900), draw_paths(STEROID, width=340)
    assert "hopwalk-vertical" not in wide and "hopwalk-vertical" in narrow
    rows = {rect.get("fill"): float(rect.get("y", "")) for rect in parsed(narrow).iter(f"{SVG}rect")}
    assert rows["#3467c9"] < rows["currentColor"] < rows["#17805a"]
    long = [ReasoningPath("start", tuple(Edge("is located in", f"a rather long name {hop}") for hop in range(5)), 1.0)]
    assert "hopwalk-vertical" in draw_paths(long, width=720)  # five hops do not fit side by side


def test_a_narrow_drawing_says_how_many_paths_it_leaves_out():
    paths = [ReasoningPath("a", (Edge("r", f"b{n}"), Edge("s", "c")), 1 / (1 + n)) for n in range(6)]
    svg = draw_paths(paths, width=340)
    drawn = names(svg, "entity")
    assert drawn == [f"b{n}" for n in range(len(drawn))] and 2 <= len(drawn) < 6
    assert f"the {len(drawn)} likeliest of 6 paths" in (parsed(svg).get("aria-label") or "")


def test_boxes_have_the_labels_of_their_entities():
    path = ReasoningPath("Ann", (Edge("knows", "Ben", key='Q2 "&<'), Edge("knows", "Cy")), 1.0)
    keys = [group.get("data-key") for group in parsed(draw_paths([path], head_key="Q1")).iter(f"{SVG}g")]
    assert [key for key in keys if key] == ["Q1", "Q2%20%22%26%3C"]


def test_few_crossings():
    """Two chains that begin in one order and end in the other need not cross."""
    paths = [
        ReasoningPath("s", (Edge("r1", a), Edge("r2", b)), -1.0)
        for a, b in [("a1", "b2"), ("a2", "b1"), ("a3", "b3"), ("a1", "b4")]
    ]
    rows = [(float(text.get("y", "")), (text.text or "")[1:-1]) for text in parsed(draw_paths(paths)).iter(f"{SVG}text")]
    order = [name for _, name in sorted(rows)]
    places = [order.index(name) for name in ("a1", "a2", "a3")]
    ends = [min(order.index("b2"), order.index("b4")), order.index("b1"), order.index("b3")]
    assert sorted(range(3), key=places.__getitem__) == sorted(range(3), key=ends.__getitem__)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("rst"), st.sampled_from("abcdefg"), st.booleans()), max_size=3),
        min_size=1,
        max_size=15,
    )
)
def test_nothing_overlaps(paths: list[list[tuple[str, str, bool]]]):
    svg = draw_paths([ReasoningPath("source", tuple(Edge(*edge) for edge in path), -float(n)) for n, path in enumerate(paths)])
    shapes = boxes(svg) + labels(svg)
    assert not [pair for pair in combinations(shapes, 2) if pair[0].overlaps(pair[1])]
    whole = parsed(svg)
    assert all(box.x >= 0 and box.y >= 0 for box in shapes)
    assert all(box.x + box.width <= float(whole.get("width", "")) for box in shapes)
    assert all(box.y + box.height <= float(whole.get("height", "")) for box in shapes)


@pytest.mark.parametrize("label", HOSTILE, ids=range(len(HOSTILE)))
def test_labels_are_shown_and_not_run(label: str):
    svg = draw_paths(
        [ReasoningPath(label, (Edge(label, "middle"), Edge("r", label, is_inverse=True)), -1.0), ReasoningPath(label, (), -2.0)]
    )
    tags = {element.tag.removeprefix(SVG) for element in parsed(svg).iter()}
    assert tags <= {"svg", "desc", "g", "title", "rect", "path", "text"}
    attributes = {name for element in parsed(svg).iter() for name in element.keys()}  # noqa: SIM118
    assert not [name for name in attributes if name.startswith("on") or name in ("style", "href", "id")]
    assert svg.encode() and "<!--" not in svg and svg.count("http") - svg.count("https://example.org") * 1 == 1
    widest = max(len(text.text or "") for text in parsed(svg).iter(f"{SVG}text"))
    assert widest < 70
    if label.isprintable() and label.strip():
        assert names(svg, "source") == [label]  # the tooltip has it all


def test_addresses_keep_their_end():
    svg = draw_paths(
        [ReasoningPath("a", (Edge("/award/award_nominee/award_nominations./award/award_nomination/award", "b"),), -1.0)]
    )
    label = "".join(lines_of(svg, "relation"))
    assert label.startswith("…") and label.endswith("award_nomination/award")


def test_directions_are_isolated():
    for text in parsed(draw_paths([ReasoningPath("שלום", (Edge("مرحبا", "b"),), -1.0)])).iter(f"{SVG}text"):
        assert (text.text or "").startswith("\u2068") and (text.text or "").endswith("\u2069")


def test_only_the_likeliest_of_many_paths_are_drawn():
    paths = [ReasoningPath("a", (Edge("r", f"b{n}"),), -float(n)) for n in range(20)]
    svg = draw_paths(paths, most=5)
    assert names(svg, "answer") == ["b0", "b1", "b2", "b3", "b4"]
    assert "the 5 likeliest of 20 paths" in (parsed(svg).get("aria-label") or "")


def test_text_for_screen_readers():
    whole = parsed(draw_paths(STEROID))
    assert whole.get("role") == "img" and "4 paths" in (whole.get("aria-label") or "")
    assert "steroid —affects→ cell ←affects— eicosanoid" in whole.findtext(f"{SVG}desc", "")


def test_no_path():
    assert "no path" in "".join(parsed(draw_paths([])).itertext())


@pytest.mark.parametrize("width", [360, 700, 1100])
def test_words_are_not_broken_where_there_is_room(width: int):
    """Five paths of two hops with words that were broken at 100 pixels."""
    middles = ["entity", "disease or syndrome", "neoplastic process", "acquired abnormality", "pathologic dysfunction"]
    paths = [
        ReasoningPath("steroid", (Edge("measurement of", name), Edge("process of", "plant", is_inverse=True)), 1 / place)
        for place, name in enumerate(middles, start=1)
    ]
    drawn = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", draw_paths(paths, width=width)))
    shown = [name for name in middles if name.split()[0] in drawn]
    assert len(shown) == 5 or width == 360
    words = {word for name in [*shown, "measurement of", "process of"] for word in name.split()}
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", draw_paths(paths, width=width))
    written = {word for line in lines for word in line.strip("\u2068\u2069").split()}
    assert words <= written
