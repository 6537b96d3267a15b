"""Counters whose names do not end in ``_total``, as some of upstream's."""

from collections import defaultdict
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class PlainCounter(Collector):
    """A counter with exactly the given name; ``Counter`` would append ``_total``."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: tuple[str, ...],
        registry: CollectorRegistry,
    ) -> None:
        """Register the counter, without a series yet."""
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._values: defaultdict[tuple[str, ...], float] = defaultdict(float)
        registry.register(self)

    def increment(self, *values: str, by: float = 1.0) -> None:
        """Count; `values` are those of the labels. With `by` 0 it makes a series.

        Several threads may count.
        """
        # CPython changes to another thread only at calls and at jumps backwards, and
        # there is none between the read and the write. A lock would cost twice as much.
        self._values[values] += by

    def value(self, *values: str) -> float:
        """Return the count for these values of the labels."""
        return self._values.get(values, 0.0)

    def collect(self) -> Iterable[Metric]:
        """Return the counter with its series."""
        metric = Metric(self._name, self._documentation, "counter")
        # A copy: the loop that counts may be another one than the loop that collects.
        for values, count in self._values.copy().items():
            labels = dict(zip(self._labels, values, strict=True))
            metric.add_sample(self._name, labels, count)
        yield metric
