"""The tables of docs/sizing.md, from the figures of all runs."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.benchmarks.pages import rounded, table, update_page
from tests.benchmarks.sizing.figures import (
    CREATE,
    DELETE,
    MANAGERS,
    PEAK,
    PODS_OF_A_NODE,
    PROJECT,
    RESIDENT,
    REST,
    START,
    Run,
    medians,
    model,
    spread,
    values,
)

SHOWN: Final = (100, 1000, 5000)
"""The numbers of nodes in the table."""

_FIGURES: Final = {
    RESIDENT: "memory at rest, MiB",
    PEAK: "memory at most, MiB",
    START: "CPU of a start, s",
    REST: "CPU at rest, ms a second",
    CREATE: "CPU to create 1,000 pods, s",
    DELETE: "CPU to delete 1,000 pods, s",
}
"""The columns, by the names of the figures."""


def updated(text: str, runs: Sequence[Run]) -> str:
    """Return the page with the tables of these runs behind its marks."""
    tables = {"sizes": sizes_table, "lines": lines_table, "rates": rates_table}
    with_runs = {name: partial(each, runs) for name, each in tables.items()}
    return update_page(text, "sizing.json", with_runs)


def sizes_table(runs: Sequence[Run]) -> str:
    """Return what each size costs; a `~` marks a number that the lines give."""
    rows = [("nodes", "pods", "manager", *_FIGURES.values())]
    for nodes in SHOWN:
        for manager in MANAGERS:
            cells = [cell(runs, manager, figure, nodes) for figure in _FIGURES]
            pods = nodes * PODS_OF_A_NODE
            rows.append((f"{nodes:,}", f"{pods:,}", f"`{manager}`", *cells))
    return table(rows)


def cell(runs: Sequence[Run], manager: str, figure: str, nodes: int) -> str:
    """Return the median of a size, or the number of the model with a `~`."""
    measured = medians(runs, manager, figure)
    if nodes in measured:
        return rounded(measured[nodes])
    return f"~{rounded(float(f'{model(runs, manager, figure).at(nodes):.2g}'))}"


def lines_table(runs: Sequence[Run]) -> str:
    """Return the line of each figure, its error, and the spread of equal runs."""
    rows = [("figure", "manager", "no pods", "each 1,000 pods", "error", "spread")]
    for figure, title in _FIGURES.items():
        for manager in MANAGERS:
            line = model(runs, manager, figure)
            slope = line.slope * 1000 / PODS_OF_A_NODE
            rows.append(
                (
                    title,
                    f"`{manager}`",
                    rounded(line.start),
                    rounded(slope),
                    f"{line.error:.0%}",
                    f"{spread(values(runs, manager, figure)):.0%}",
                )
            )
    return table(rows)


def rates_table(runs: Sequence[Run]) -> str:
    """Return how much of each kind of work fills a core, with 1,000 nodes."""
    create, delete = (
        medians(runs, PROJECT, figure)[1000] / 1000 for figure in (CREATE, DELETE)
    )
    node = model(runs, PROJECT, REST).slope / 1000
    rates = {
        "pods created by deployments, each an endpoint of a service": 1 / create,
        "pods deleted with their deployments": 1 / delete,
        "pods replaced by rolling updates": 1 / (create + delete),
        "renewals of leases, of which a node has one in ten seconds": 1 / (node * 10),
    }
    rows = [(work, f"{float(f'{rate:.2g}'):,.0f}") for work, rate in rates.items()]
    return table([("work", "a second"), *rows])
