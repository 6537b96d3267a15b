"""The results: a table with ratios, and JSON."""

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.measuring import Figures

Results = Mapping[str, Mapping[str, Figures]]
"""Figures by benchmark, then by contender."""


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


def write_json(path: Path, results: Results) -> None:
    """Write all figures."""
    path.write_text(json.dumps({"results": results}, indent=2) + "\n")
