"""Counters, gauges and histograms with labels, whose series cost little.

They show exactly what those of the client library show, without the times of creation,
which the manager switches off in the library, too. There, a series is an object
with ten attributes, one more object for each bucket, and a lock for each of them: the
18 series of a cache took longer to make than the cache. Here a series has its values
only, and the samples are made at the scrape.

Several threads may count and show. CPython changes to another thread only at calls and
at jumps backwards, and there is none between the read and the write of a value.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_TOTAL: Final = "_total"

_text_of: Callable[[float], str] = floatToGoString
"""Returns the bound of a bucket as a label; the client library states no types."""

_Sample = tuple[str, dict[str, str], float]
"""A sample of a series: the suffix of its name, its own labels, its value."""


class Series(Protocol):
    """One series of a metric."""

    def samples(self) -> Iterator[_Sample]:
        """Yield the samples of now."""


SeriesT = TypeVar("SeriesT", bound=Series)


class Family(Collector, Generic[SeriesT]):
    """All series of one metric, by the values of their labels."""

    def __init__(
        self,
        kind: str,
        name: str,
        documentation: str,
        labels: Sequence[str],
        make: Callable[[], SeriesT],
        registry: CollectorRegistry,
    ) -> None:
        """Register a metric without a series; `kind` is Prometheus' name of its type.

        `make` returns a series at zero.
        """
        self._kind = kind
        self._name = name
        self._documentation = documentation
        self.label_names = tuple(labels)
        self._make = make
        self._series: dict[tuple[str, ...], SeriesT] = {}
        registry.register(self)

    def labels(self, *values: str) -> SeriesT:
        """Return the series of these values of the labels; a new one starts at zero.

        Raises ValueError unless there is one value for each label.
        """
        found = self._series.get(values)
        if found is None:
            if len(values) != len(self.label_names):
                msg = f"{self._name}: {values} for the labels {self.label_names}"
                raise ValueError(msg)
            # Another thread may have made it meanwhile.
            found = self._series.setdefault(values, self._make())
        return found

    def remove(self, *values: str) -> None:
        """Show the series of these values of the labels no more, if there is one."""
        self._series.pop(values, None)

    def describe(self) -> Iterable[Metric]:
        """Return the metric without its series: the registry asks for its name."""
        return [Metric(self._name, self._documentation, self._kind)]

    def collect(self) -> Iterable[Metric]:
        """Return the metric with its series."""
        metric = Metric(self._name, self._documentation, self._kind)
        # A copy: another thread may add a series meanwhile.
        for values, series in self._series.copy().items():
            labels = dict(zip(self.label_names, values, strict=True))
            for suffix, own, value in series.samples():
                metric.add_sample(self._name + suffix, {**labels, **own}, value)
        return [metric]


class CounterSeries:
    """One series of a counter."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        """Start at zero."""
        self._value = 0.0

    def inc(self) -> None:
        """Count one more."""
        self._value += 1.0

    def samples(self) -> Iterator[_Sample]:
        """Yield the count."""
        yield _TOTAL, {}, self._value


class Counter(Family[CounterSeries]):
    """A counter, whose name ends in ``_total``."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
    ) -> None:
        """Register the counter, without a series yet."""
        name = name.removesuffix(_TOTAL)
        super().__init__(
            "counter", name, documentation, labels, CounterSeries, registry
        )


class GaugeSeries:
    """One series of a gauge."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        """Start at zero."""
        self._value = 0.0

    def set(self, value: float) -> None:
        """Show another value from now on."""
        self._value = value

    def samples(self) -> Iterator[_Sample]:
        """Yield the value."""
        yield "", {}, self._value


class Gauge(Family[GaugeSeries]):
    """A gauge."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
    ) -> None:
        """Register the gauge, without a series yet."""
        super().__init__("gauge", name, documentation, labels, GaugeSeries, registry)


class _Buckets:
    """The buckets of a histogram: their upper bounds, and the labels that show them."""

    __slots__ = ("bounds", "labels")

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = (*map(float, bounds), inf)
        self.labels = tuple({"le": _text_of(each)} for each in self.bounds)


class HistogramSeries:
    """One series of a histogram."""

    __slots__ = ("_bounds", "_buckets", "_counts", "_sum")

    def __init__(self, buckets: _Buckets) -> None:
        """Start without observations."""
        self._buckets = buckets
        self._bounds = buckets.bounds
        self._counts = [0.0] * len(buckets.bounds)
        """By bucket, the observations that are too great for the bucket before it."""
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count an observation."""
        bucket = bisect_left(self._bounds, value)
        self._sum += value
        self._counts[bucket] += 1.0

    def samples(self) -> Iterator[_Sample]:
        """Yield each bucket with the smaller ones, the count, the sum."""
        count = 0.0
        numbers = accumulate(self._counts)
        for labels, count in zip(self._buckets.labels, numbers, strict=True):
            yield "_bucket", labels, count
        yield "_count", {}, count
        yield "_sum", {}, self._sum


class Histogram(Family[HistogramSeries]):
    """A histogram; the bounds of its buckets are positive and increase."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        buckets: Iterable[float],
        registry: CollectorRegistry,
    ) -> None:
        """Register the histogram; `buckets` has all bounds but the last, infinity."""
        bounds = _Buckets(buckets)
        super().__init__(
            "histogram",
            name,
            documentation,
            labels,
            lambda: HistogramSeries(bounds),
            registry,
        )
