"""The file of all runs, the medians of equal runs, and a model for other sizes."""

import statistics
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tests.benchmarks.measuring import Figures

PROJECT: Final = "controller-manager"
UPSTREAM: Final = "kube-controller-manager"
MANAGERS: Final = (PROJECT, UPSTREAM)

PODS_OF_A_NODE: Final = 30
"""Kubernetes is made for at most 150,000 pods on 5,000 nodes."""

RESIDENT: Final = "rest: resident, MB"
REST: Final = "rest: CPU a second, ms"
PEAK: Final = "end: peak, MB"
START: Final = "start: CPU, s"
CREATE: Final = "create: CPU for 1,000 pods, s"
DELETE: Final = "delete: CPU for 1,000 pods, s"

_FLAT: Final = frozenset((CREATE, DELETE))
"""The figures of pods that come and go, which do not grow with the cluster."""


class Run(msgspec.Struct, frozen=True):
    """The figures of one manager on one cluster."""

    manager: str
    nodes: int
    figures: Figures


class Line(msgspec.Struct, frozen=True):
    """A straight line, and its largest difference from the points, as their share."""

    start: float
    slope: float
    error: float

    def at(self, size: float) -> float:
        """Return the value of a size."""
        return self.start + self.slope * size


def values(runs: Iterable[Run], manager: str, figure: str) -> dict[int, list[float]]:
    """Return what all runs of a manager have measured, by the number of nodes."""
    found: dict[int, list[float]] = {}
    for each in runs:
        if each.manager == manager:
            found.setdefault(each.nodes, []).append(each.figures[figure])
    return dict(sorted(found.items()))


def medians(runs: Iterable[Run], manager: str, figure: str) -> dict[int, float]:
    """Return the median of the runs of each size."""
    found = values(runs, manager, figure)
    return {nodes: statistics.median(each) for nodes, each in found.items()}


def spread(measured: Mapping[int, list[float]]) -> float:
    """Return the largest difference of runs of one size, as a share of the lesser."""
    return max(max(each) / min(each) - 1 for each in measured.values())


def model(runs: Iterable[Run], manager: str, figure: str) -> Line:
    """Return the model of a figure by the number of nodes.

    It is a line through the medians. For the cost of a pod it is their mean: a slope
    would be that of chance.
    """
    points = medians(runs, manager, figure)
    if figure not in _FLAT:
        return line_through(points)
    mean = statistics.mean(points.values())
    return Line(mean, 0.0, max(abs(mean - each) / each for each in points.values()))


def line_through(points: Mapping[int, float]) -> Line:
    """Return the line with the least squares of relative differences.

    Relative, because a difference of 10 MB matters at 90 MB, and not at 1,000 MB. It
    needs two points or more, none of which is zero.
    """
    # Minimise the sum of ((start + slope x - y) / y)²: the weight of a point is 1 / y².
    weights = {size: value**-2 for size, value in points.items()}
    total = sum(weights.values())
    mean = sum(weights[each] * each for each in points) / total
    middle = sum(weights[each] * value for each, value in points.items()) / total
    slope = sum(
        weights[each] * (each - mean) * (value - middle)
        for each, value in points.items()
    ) / sum(weights[each] * (each - mean) ** 2 for each in points)
    start = middle - slope * mean
    errors = (abs(start + slope * x - y) / y for x, y in points.items())
    return Line(start, slope, max(errors))
