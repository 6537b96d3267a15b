"""The results: a table with ratios, JSON, a plot."""

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.measuring import Figures

Results = Mapping[str, Mapping[str, Figures]]
"""Figures by benchmark, then by contender."""

Curves = Mapping[str, Mapping[str, Mapping[int, Figures]]]
"""Figures by the growing quantity, then by contender, then by size."""


def show(console: Console, results: Results) -> None:
    """Print a table for each benchmark; ratios are ours divided by the other's."""
    for benchmark, by_contender in results.items():
        console.print(_table(benchmark, by_contender))


def _table(title: str, by_contender: Mapping[str, Figures]) -> Table:
    table = Table(title=title)
    table.add_column("figure")
    for name in by_contender:
        table.add_column(name, justify="right")
    contenders = list(by_contender.values())
    if len(contenders) > 1:
        table.add_column("ratio", justify="right")
    figures = dict.fromkeys(name for each in contenders for name in each)
    for figure in figures:
        values = [each.get(figure) for each in contenders]
        cells = ["" if value is None else _rounded(value) for value in values]
        if len(values) > 1:
            ours, theirs = values[0], values[1]
            cells.append(f"{ours / theirs:.2f}" if ours is not None and theirs else "")
        table.add_row(figure, *cells)
    return table


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def write_json(path: Path, results: Results, curves: Curves) -> None:
    """Write all figures."""
    path.write_text(json.dumps({"results": results, "curves": curves}, indent=2) + "\n")


def show_curves(console: Console, curves: Curves) -> None:
    """Print a table for each growing quantity."""
    for what, by_contender in curves.items():
        for contender, by_size in by_contender.items():
            table = Table(title=f"{contender}: cost by {what}")
            table.add_column("figure")
            for size in by_size:
                table.add_column(f"{size:,}", justify="right")
            figures = dict.fromkeys(name for each in by_size.values() for name in each)
            for figure in figures:
                cells = [_rounded(each[figure]) for each in by_size.values()]
                table.add_row(figure, *cells)
            console.print(table)


def draw(path: Path, curves: Curves) -> None:
    """Draw cost against size, both logarithmic, a panel for each figure."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to load

    panels = [
        (what, figure)
        for what, by_contender in curves.items()
        for figure in next(iter(next(iter(by_contender.values())).values()))
    ]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    canvas = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    for number, (what, figure) in enumerate(panels, start=1):
        axes = canvas.add_subplot(rows, columns, number)
        for contender, by_size in curves[what].items():
            sizes = list(by_size)
            costs = [by_size[size][figure] for size in sizes]
            axes.plot(sizes, costs, marker="o", label=contender)
        axes.set(xscale="log", xlabel=what, title=figure)
        axes.set_ylim(bottom=0)
        axes.legend()
    canvas.savefig(path)
