"""Small charts as SVG, in plain Python: lines and bars for light and dark, print, no colour, and screen readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

# Colours that people with colour blindness can tell apart (Okabe and Ito); dashes differ too.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#6a5acd", "#555555")
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 2")
_LINES = "".join(
    f".chart .s{number}{{stroke:{colour};stroke-dasharray:{dashes or 'none'}}}.chart .f{number}{{fill:{colour}}}"
    for number, (colour, dashes) in enumerate(zip(_COLOURS, _DASHES, strict=True))
)
STYLE = (
    ".chart{font:12px system-ui,sans-serif}.chart text{fill:#222}.chart .grid{stroke:#ddd}.chart .axis{stroke:#777;fill:none}"
    ".chart .line{fill:none;stroke-width:2}.chart .quiet{fill:#666}.chart .paper{stroke:#777;stroke-dasharray:3 4}"
    f"{_LINES}"
    "@media (prefers-color-scheme:dark){.chart text{fill:#ddd}.chart .grid{stroke:#444}.chart .quiet{fill:#aaa}"
    ".chart .s0{stroke:#56b4e9}.chart .f0{fill:#56b4e9}.chart .s6{stroke:#aaa}.chart .f6{fill:#aaa}}"
)
WIDTH, HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 30, 42


@dataclass(frozen=True)
class Series:
    """A line: its name and its points (x, y); `level` is a horizontal line to compare with, such as the paper's number."""

    name: str
    points: Sequence[tuple[float, float]]
    level: float | None = None


@dataclass
class _Scale:
    """A linear map from values to pixels."""

    low: float
    high: float
    start: float
    end: float
    ticks: list[float] = field(default_factory=list)

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    from_zero: bool = False,
    standalone: bool = True,
) -> str:
    """Lines over a number, with a legend below and a description for screen readers."""
    shown = [(number % len(_COLOURS), line) for number, line in enumerate(series) if line.points]
    xs = [x for _, line in shown for x, _ in line.points]
    ys = [y for _, line in shown for _, y in line.points] + [line.level for _, line in shown if line.level is not None]
    if not xs:
        return _document(
            title, "no points", HEIGHT, [f'<text x="{WIDTH / 2}" y="120" text-anchor="middle">no data</text>'], standalone
        )
    legend = 16 * math.ceil(len(shown) / 2)
    bottom = HEIGHT - _BOTTOM
    across = _scale(min(xs), max(xs), _LEFT, WIDTH - _RIGHT)
    up = _scale(0.0 if from_zero else min(ys), max(ys), bottom, _TOP)
    parts = [*_axes(across, up, bottom, x_label, y_label)]
    for place, (number, line) in enumerate(shown):
        pixels = [(across(x), up(y)) for x, y in line.points]
        if line.level is not None:
            y = up(line.level)
            parts.append(f'<line class="paper" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<polyline class="line s{number}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)}"/>')
        if len(pixels) <= 40:
            parts += [f'<circle class="f{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in pixels]
        x, y = _LEFT + (place % 2) * 205, HEIGHT + 2 + 16 * (place // 2)
        parts.append(f'<line class="line s{number}" x1="{x}" x2="{x + 26}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{x + 32}" y="{y + 4}">{escape(line.name)}</text>')
    ends = "; ".join(f"{line.name}: from {_short(line.points[0][1])} to {_short(line.points[-1][1])}" for _, line in shown)
    description = f"{y_label} over {x_label} from {_short(min(xs))} to {_short(max(xs))}. {ends}."
    return _document(title, description, HEIGHT + legend, parts, standalone)


def bar_chart(
    title: str,
    bars: Sequence[tuple[str, float]],
    *,
    show: Callable[[float], str] = lambda value: f"{value:.3g}",
    standalone: bool = True,
) -> str:
    """Horizontal bars from 0, each with its name and value."""
    most = max((value for _, value in bars), default=0.0) or 1.0
    left = min(12 + 7 * max((len(name) for name, _ in bars), default=0), WIDTH // 2)
    room = WIDTH - left - 70
    parts = []
    for number, (name, value) in enumerate(bars):
        y, width = _TOP + 22 * number, room * max(value, 0.0) / most
        parts.append(f'<text x="{left - 6}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="f0" x="{left}" y="{y}" width="{width:.1f}" height="16"/>')
        parts.append(f'<text class="quiet" x="{left + width + 5:.1f}" y="{y + 12}">{escape(show(value))}</text>')
    description = "; ".join(f"{name}: {show(value)}" for name, value in bars) or "no data"
    return _document(title, description, _TOP + 22 * len(bars) + 8, parts, standalone)


def _document(title: str, description: str, height: float, parts: Sequence[str], standalone: bool) -> str:
    style = f"<style>{STYLE}</style>" if standalone else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{style}"
        f'<text x="{WIDTH / 2:.0f}" y="16" text-anchor="middle" font-weight="bold">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def _axes(across: _Scale, up: _Scale, bottom: float, x_label: str, y_label: str) -> list[str]:
    parts = []
    for tick in up.ticks:
        y = up(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="quiet" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
    for tick in across.ticks:
        x = across(tick)
        parts.append(f'<text class="quiet" x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{_short(tick)}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{WIDTH - _RIGHT}"/>')
    middle = (_TOP + bottom) / 2
    parts.append(f'<text x="{(_LEFT + WIDTH - _RIGHT) / 2:.0f}" y="{bottom + 31}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text x="12" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 12 {middle:.0f})">{escape(y_label)}</text>'
    )
    return parts


def _scale(low: float, high: float, start: float, end: float) -> _Scale:
    """A scale that holds the values, with ticks at round numbers."""
    if high - low < 1e-9 * max(abs(high), 1.0):
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [step * number for number in range(first, last + 1)]
    return _Scale(ticks[0], ticks[-1], start, end, ticks)


def _short(value: float) -> str:
    """A number in few characters.

    >>> _short(1234567.0), _short(0.25), _short(40.0)
    ('1.23M', '0.25', '40')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:.4g}"
