"""The picture of docs/propagation.md: what a query reaches layer by layer, on a graph of eight entities.

    python -m tools.propagation_picture

Which nodes are reached and which messages are sent is computed from the facts; the priorities that choose the senders are given
here, as a trained model would give them.
"""

from __future__ import annotations

from html import escape

from benchmarks.machine import PROJECT

from hopwalk.utils.charts import STYLE
from hopwalk.utils.files import write_text

PICTURE = PROJECT / "docs" / "pictures" / "propagation.svg"
FACTS = (  # (head, relation, tail)
    ("Ann", "works_for", "Acme"),
    ("Bob", "works_for", "Acme"),
    ("Ann", "married_to", "Eve"),
    ("Ann", "plays", "chess"),
    ("Kim", "plays", "chess"),
    ("Bob", "lives_in", "Rome"),
    ("Eve", "lives_in", "Rome"),
    ("Acme", "based_in", "Rome"),
    ("Kim", "lives_in", "Oslo"),
)
HEAD, RELATION, ANSWER = "Ann", "lives_in", "Rome"
ROWS = ("Eve", "Ann", "Acme", "Bob", "Rome", "chess", "Kim", "Oslo")
PRIORITIES = {"Ann": 0.4, "Acme": 0.8, "Eve": 0.7, "Bob": 0.6, "chess": 0.1, "Rome": 0.5, "Kim": 0.2, "Oslo": 0.1}
NUM_LAYERS, NUM_SENDERS = 3, 3
LEFT, TOP, COLUMN, ROW, RADIUS = 70, 52, 150, 34, 8
LOOKS = (
    ".chart .grid{stroke:#bbb}"
    ".chart .bold{stroke:#d55e00;stroke-width:3}.chart .away{fill:#999}.chart .sends{fill:#0072b2}.chart .answer{fill:#009e73}"
    ".chart .reached{fill:none;stroke:#0072b2;stroke-width:2}"
)


def edges() -> list[tuple[str, str]]:
    """Source and target of every edge, inverse edges included."""
    return [(head, tail) for head, _, tail in FACTS] + [(tail, head) for head, _, tail in FACTS]


def layers() -> list[tuple[list[str], list[str]]]:
    """The nodes reached before each layer and after the last, and those of them that send."""
    reached, found = [HEAD], []
    for _ in range(NUM_LAYERS):
        senders = sorted(reached, key=lambda name: -PRIORITIES[name])[:NUM_SENDERS]
        found.append((list(reached), senders))
        reached += dict.fromkeys(target for source, target in edges() if source in senders and target not in reached)
    return [*found, (reached, [])]


def walks_to_answer(found: list[tuple[list[str], list[str]]]) -> set[tuple[int, str, str]]:
    """The messages (layer, source, target) of simple walks from the head to the answer."""
    walks, used = [[HEAD]], set[tuple[int, str, str]]()
    for _, senders in found[:-1]:
        walks = [[*walk, tail] for walk in walks for head, tail in edges() if head == walk[-1] in senders and tail not in walk]
        for walk in walks:
            if walk[-1] == ANSWER:
                used |= {(layer, walk[layer], walk[layer + 1]) for layer in range(len(walk) - 1)}
    return used


def place(layer: int, name: str) -> tuple[int, int]:
    """The centre of a node."""
    return LEFT + layer * COLUMN, TOP + ROWS.index(name) * ROW


def picture() -> str:
    """The picture as SVG."""
    found = layers()
    bold = walks_to_answer(found)
    lines, texts = [], []
    for layer, (_, senders) in enumerate(found):
        for source, target in edges():
            if source in senders:
                (x1, y1), (x2, y2) = place(layer, source), place(layer + 1, target)
                look = "bold" if (layer, source, target) in bold else "grid"
                lines.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{look}"/>')
    for layer, (reached, senders) in enumerate(found):
        texts.append(_text(LEFT + layer * COLUMN, TOP - 28, "the head" if layer == 0 else f"after layer {layer}", "middle"))
        for name in ROWS:
            x, y = place(layer, name)
            look = "away" if name not in reached else "answer" if name == ANSWER else "sends" if name in senders else "reached"
            lines.append(f'<circle cx="{x}" cy="{y}" r="{2 if look == "away" else RADIUS}" class="{look}"/>')
    last, _ = found[-1]
    for name in ROWS:
        x, y = place(NUM_LAYERS, name)
        says = "highest score" if name == ANSWER else "a score" if name in last else "out of reach: the constant"
        texts += [_text(LEFT - 18, y + 4, name, "end"), _text(x + 18, y + 4, says, "start")]
    width, height = LEFT + NUM_LAYERS * COLUMN + 180, TOP + len(ROWS) * ROW
    title = (
        f"Messages of {RELATION}({HEAD}, ?) through {NUM_LAYERS} layers with {NUM_SENDERS} senders each; walks to {ANSWER} bold"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
        f"<title>{title}</title><style>{STYLE}{LOOKS}</style>{''.join(lines + texts)}</svg>\n"
    )


def _text(x: int, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def main() -> None:
    """Write the picture."""
    write_text(PICTURE, picture())


if __name__ == "__main__":
    main()
