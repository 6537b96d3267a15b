"""The tables of docs/operators-measured.md, from all runs."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from tests.benchmarks.measuring import Figures
from tests.benchmarks.operators.measuring import PATIENCE
from tests.benchmarks.pages import rounded, table, update_page

NAMES: Final = {"sdk": "SDK", "kopf": "kopf", "asyncio": "own loop"}
SIZES: Final = (1_000, 10_000)


class Run(msgspec.Struct, frozen=True):
    """The figures of one operator with so many widgets."""

    contender: str
    objects: int
    cluster: str
    figures: Figures


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


def updated(text: str, runs: Sequence[Run]) -> str:
    """Return the page with the tables of these runs behind its marks."""
    tables = {
        "costs": lambda: medians(runs, COSTS, "devcluster", SIZES),
        "faults": lambda: medians(runs, FAULTS, "devcluster", SIZES[:1]),
    }
    return update_page(text, "operators-measured.json", tables)


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


def medians(
    runs: Sequence[Run], rows: Sequence[Row], cluster: str, sizes: Sequence[int]
) -> str:
    """Return the medians: a row for each figure, a column for each operator."""
    columns = [(size, name) for size in sizes for name in NAMES]
    head = [
        f"{NAMES[name]}, {size:,}" if len(sizes) > 1 else NAMES[name]
        for size, name in columns
    ]
    lines = [["figure", *head]]
    for row in rows:
        cells = [median(runs, row, cluster, name, size) for size, name in columns]
        lines.append([row.title, *map(_cell, cells)])
    return table(lines, "---:")


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    if value == PATIENCE:
        return f"not within {PATIENCE:.0f}"
    return f"{value:,.0f}" if value.is_integer() else rounded(value)
