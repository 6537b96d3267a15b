"""The drawing of docs/sizing.md: SVG that is readable on white and on black."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tests.benchmarks.sizing.figures import (
    MANAGERS,
    PEAK,
    PODS_OF_A_NODE,
    REST,
    START,
    Run,
    medians,
    model,
)
from tests.benchmarks.sizing.page import SHOWN, cell

_COLOURS: Final = dict(zip(MANAGERS, ("#2f81f7", "#db6d28"), strict=True))
_SIDE: Final = 210
"""The width and the height of a panel."""

_LEFT: Final = 72
_TOP: Final = 58
_STEP: Final = _SIDE + _LEFT + 8
_PODS: Final = (1_000, 10_000, 100_000)
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#768390}.grid{stroke:#8b949e;stroke-opacity:.35}"
)
"""Without a background: the text has enough contrast on white and on black."""


class _Panel(Struct, frozen=True):
    """One figure against the number of pods, both logarithmic."""

    title: str
    figure: str
    lowest: float
    highest: float
    unit: str


_PANELS: Final = (
    _Panel("Memory at most", PEAK, 50, 15_000, "MiB"),
    _Panel("CPU of a start", START, 0.5, 500, "s"),
    _Panel("CPU at rest, of a second", REST, 0.5, 200, "ms"),
)


def draw(runs: Sequence[Run]) -> str:
    """Return the drawing: measured sizes as dots, lines of the model, 5,000 nodes."""
    width, height = len(_PANELS) * _STEP + 8, _TOP + _SIDE + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        "<title>Memory and CPU by the number of pods</title>",
        f"<style>{_STYLE}</style>",
    ]
    for number, (manager, colour) in enumerate(_COLOURS.items()):
        parts.append(_circle(_LEFT + 5 + 170 * number, 12, colour))
        parts.append(_text(_LEFT + 14 + 170 * number, 16, manager, "start"))
    parts.append(
        _text(_LEFT + 354, 16, "dot: measured, line: model, 30 pods a node", "start")
    )
    for number, panel in enumerate(_PANELS):
        parts.append(f'<g transform="translate({_LEFT + number * _STEP} {_TOP})">')
        parts += [*_axes(panel), *_curves(panel, runs), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(panel: _Panel) -> list[str]:
    parts = [_text(_SIDE / 2, -14, panel.title, "middle")]
    for pods in _PODS:
        x = _x(pods)
        parts.append(_line([(x, 0), (x, _SIDE)], 'class="grid"'))
        parts.append(_text(x, _SIDE + 16, f"{pods:,}", "middle"))
    parts.append(_text(_SIDE / 2, _SIDE + 34, "pods", "middle"))
    decade = 10.0 ** math.ceil(math.log10(panel.lowest))
    while decade <= panel.highest:
        y = _y(panel, decade)
        parts.append(_line([(0, y), (_SIDE, y)], 'class="grid"'))
        parts.append(_text(-5, y + 4, f"{decade:,.0f} {panel.unit}", "end"))
        decade *= 10
    return parts


def _curves(panel: _Panel, runs: Sequence[Run]) -> list[str]:
    parts = []
    for manager, colour in _COLOURS.items():
        measured = medians(runs, manager, panel.figure)
        line = model(runs, manager, panel.figure)
        sizes = [min(measured) * 1.1**step for step in range(80)]
        points = [
            (_x(each * PODS_OF_A_NODE), _y(panel, line.at(each)))
            for each in (*(each for each in sizes if each < SHOWN[-1]), SHOWN[-1])
        ]
        parts.append(_line(points, f'fill="none" stroke="{colour}" stroke-width="1.5"'))
        parts += [
            _circle(_x(nodes * PODS_OF_A_NODE), _y(panel, value), colour)
            for nodes, value in measured.items()
        ]
    return parts + _labels(panel, runs)


def _labels(panel: _Panel, runs: Sequence[Run]) -> list[str]:
    """Return the values of the largest size: the higher one above its line."""
    size = SHOWN[-1]
    ends, texts = {}, {}
    for manager in MANAGERS:
        measured = medians(runs, manager, panel.figure).get(size)
        ends[manager] = measured or model(runs, manager, panel.figure).at(size)
        texts[manager] = cell(runs, manager, panel.figure, size)
    return [
        _text(
            _SIDE,
            _y(panel, value) + (-9 if value == max(ends.values()) else 32),
            f"{texts[manager]} {panel.unit}",
            "end",
            f' style="fill:{_COLOURS[manager]}"',
        )
        for manager, value in ends.items()
    ]


def _x(pods: float) -> float:
    lowest, highest = math.log(700), math.log(200_000)
    return _SIDE * (math.log(pods) - lowest) / (highest - lowest)


def _y(panel: _Panel, value: float) -> float:
    lowest, highest = math.log(panel.lowest), math.log(panel.highest)
    return _SIDE * (1 - (math.log(value) - lowest) / (highest - lowest))


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}{more}>{text}</text>"


def _circle(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'


def _line(points: Sequence[tuple[float, float]], attributes: str) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{joined}" {attributes}/>'
