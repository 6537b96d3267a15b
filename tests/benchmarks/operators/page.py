"""The tables and the plot of docs/operators-measured.md, from all runs."""

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.benchmarks.measuring import Figures
from tests.benchmarks.operators.measuring import PATIENCE

NAMES: Final = {"sdk": "SDK", "kopf": "kopf", "asyncio": "own loop"}
SIZES: Final = (1_000, 10_000)


class Run(msgspec.Struct, frozen=True):
    """The figures of one operator with so many widgets."""

    contender: str
    objects: int
    cluster: str
    figures: Figures


def read_runs(path: Path) -> list[Run]:
    """Return the runs of a file, or none if it does not exist."""
    if not path.exists():
        return []
    return msgspec.json.decode(path.read_bytes(), type=list[Run])


def write_runs(path: Path, runs: Iterable[Run]) -> None:
    """Write runs in order, with three digits of each figure."""
    rounded = [
        msgspec.structs.replace(
            each, figures={k: float(f"{v:.3g}") for k, v in each.figures.items()}
        )
        for each in sorted(runs, key=lambda each: (each.cluster, each.objects))
    ]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rounded)) + b"\n")


class Row(msgspec.Struct, frozen=True):
    """A line of a table: a figure, or what follows from several."""

    title: str
    value: Callable[[Figures, int], float]
    needs: str
    """The figure without which a run has no value."""


def _plain(figure: str, title: str) -> Row:
    return Row(title, lambda figures, _: figures[figure], figure)


def _rate(step: str, title: str) -> Row:
    wall = f"{step}: wall, s"
    return Row(title, lambda figures, count: count / figures[wall], wall)


def _requests(step: str, title: str, verbs: Sequence[str]) -> Row:
    return Row(
        title,
        lambda figures, _: sum(figures.get(f"{step}: {verb}", 0) for verb in verbs),
        f"{step}: conflicts",
    )


_WRITES: Final = ("POST", "PATCH", "PUT", "DELETE")
COSTS: Final = (
    _plain("reaction: median, ms", "change of a widget to its config map, median, ms"),
    _plain("reaction: p99, ms", "the same, 99th percentile, ms"),
    _plain("reaction: CPU, ms", "CPU of one change, ms"),
    _rate("burst", "created at once: objects a second"),
    _plain("burst: CPU, s", "created at once: CPU, s"),
    _plain("burst: CPU of the API server, s", "created at once: CPU of API server, s"),
    _requests("burst", "created at once: writes", _WRITES),
    _requests("burst", "created at once: writes refused (409)", ["conflicts"]),
    _rate("start", "start, all out of date: objects a second"),
    _plain("start: CPU, s", "start, all out of date: CPU, s"),
    _plain("restart: wall, s", "restart, 30 missed changes: until handled, s"),
    _plain("restart: CPU, s", "restart, 30 missed changes: CPU, s"),
    _requests("restart", "restart, 30 missed changes: writes", _WRITES),
    _requests("restart", "restart, 30 missed changes: reads", ["GET", "WATCH"]),
    _plain("rest: resident, MB", "memory at rest (RSS), MB"),
    _plain("rest: proportional, MB", "memory at rest (PSS), MB"),
    _plain("rest: CPU a second, ms", "CPU at rest, ms a second"),
)
FAULTS: Final = (
    _plain("removed: median, ms", "config map deleted: back after, ms"),
    _plain("damaged: median, ms", "config map changed: right after, ms"),
    _plain("conflict, s", "status write refused with 409: written after, s"),
    *(
        _plain(f"{ending}: {what}, s", f"{title}: {seen}, s")
        for ending, title in (
            ("CUT", "watches cut"),
            ("EXPIRED", "watches end with 410"),
            ("SILENT", "watches silent"),
        )
        for what, seen in (
            ("changed widget", "changed widget handled after"),
            ("deleted config map", "deleted config map back after"),
        )
    ),
)

_MARK: Final = re.compile(
    r"(<!-- (\w+) of docs/operators-measured.json -->\n\n).*?(\n\n)", re.DOTALL
)


def update_page(text: str, runs: Sequence[Run]) -> str:
    """Return the page with the tables of these runs behind its marks."""
    tables = {
        "costs": lambda: table(runs, COSTS, "devcluster", SIZES),
        "faults": lambda: table(runs, FAULTS, "devcluster", SIZES[:1]),
    }
    return _MARK.sub(lambda found: found[1] + tables[found[2]]() + found[3], text)


def median(
    runs: Iterable[Run], row: Row, cluster: str, contender: str, size: int
) -> float | None:
    """Return the median of equal runs; none if the figure was not measured."""
    wanted = (cluster, contender, size)
    found = [
        row.value(each.figures, size)
        for each in runs
        if (each.cluster, each.contender, each.objects) == wanted
        and row.needs in each.figures
    ]
    return statistics.median(found) if found else None


def table(
    runs: Sequence[Run], rows: Sequence[Row], cluster: str, sizes: Sequence[int]
) -> str:
    """Return the medians: a row for each figure, a column for each operator."""
    columns = [(size, name) for size in sizes for name in NAMES]
    head = [
        f"{NAMES[name]}, {size:,}" if len(sizes) > 1 else NAMES[name]
        for size, name in columns
    ]
    lines = [["figure", *head], ["---", *(["---:"] * len(columns))]]
    for row in rows:
        cells = [median(runs, row, cluster, name, size) for size, name in columns]
        lines.append([row.title, *map(_cell, cells)])
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    if value == PATIENCE:
        return f"not within {PATIENCE:.0f}"
    if abs(value) >= 10 or value.is_integer():
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


# The plot: bars, a panel for each of four figures.

_COLOURS: Final = {"sdk": "#2f81f7", "kopf": "#db6d28", "asyncio": "#8b949e"}
_PANELS: Final = (
    ("CPU of one change, ms", "reaction: CPU, ms", SIZES[0]),
    ("CPU of 10,000 created at once, s", "burst: CPU, s", SIZES[1]),
    ("CPU of a restart with 1,000, s", "restart: CPU, s", SIZES[0]),
    ("memory with 10,000, MB", "rest: resident, MB", SIZES[1]),
)
_WIDTH: Final = 190
_STEP: Final = 30
_STYLE: Final = "text{font:12px sans-serif;fill:#768390}"


def draw(runs: Sequence[Run]) -> str:
    """Return the plot: what widgets cost each operator."""
    height = 34 + len(NAMES) * _STEP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 {height}">',
        "<title>CPU and memory of three operators</title>",
        f"<style>{_STYLE}</style>",
    ]
    parts += [
        _text(62, 48 + _STEP * number, name, "end")
        for number, name in enumerate(NAMES.values())
    ]
    for place, (title, figure, size) in enumerate(_PANELS):
        x = 72 + place * (_WIDTH + 44)
        row = _plain(figure, title)
        values = {
            each: median(runs, row, "devcluster", each, size) or 0.0 for each in NAMES
        }
        longest = max(values.values()) or 1.0
        parts.append(_text(x, 20, title, "start"))
        for number, (each, value) in enumerate(values.items()):
            y, length = 34 + _STEP * number, (_WIDTH - 46) * value / longest
            parts.append(
                f'<rect x="{x}" y="{y}" width="{length:.1f}" height="20" rx="3" '
                f'fill="{_COLOURS[each]}"/>'
            )
            parts.append(_text(x + length + 6, y + 14, _cell(value), "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'
