"""The text format of /metrics, written as Go's client library writes it."""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from copy import copy
from decimal import Decimal
from functools import lru_cache
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

_PART: Final = 200
"""Samples that are written without giving way: about two milliseconds."""

_LAST: Final = ("_created", "_gsum", "_gcount")
"""Samples that the client library writes after all others of their metric."""


def expose(registry: CollectorRegistry, disabled: Collection[str] = ()) -> bytes:
    """Return the registry in the text format, see `exposing`."""
    writing = exposing(registry, disabled)
    while True:
        try:
            next(writing)
        except StopIteration as stop:
            text: bytes = stop.value
            return text


def exposing(
    registry: CollectorRegistry, disabled: Collection[str] = ()
) -> Generator[None, None, bytes]:
    """Write the registry in the text format, with bucket bounds as Go writes them.

    Prometheus distinguishes series by the text of ``le``: a dashboard that queries
    ``le="1"`` does not find ``le="1.0"``. Metrics named in `disabled` are left out
    (``--disabled-metrics``).

    It yields after each part: all metrics of a manager take 70 ms. As with Go's client
    library, the values of two metrics may be of different instants.
    """
    hidden = frozenset(disabled)
    texts: list[bytes] = []
    written = 0
    for metric in registry.collect():
        total = f"{metric.name}_total" if metric.type == "counter" else metric.name
        if {metric.name, total} & hidden:
            continue
        for number, samples in enumerate(_parts(metric)):
            texts.append(_text(metric, samples, is_first=number == 0))
            written += len(samples)
            if written >= _PART:
                written = 0
                yield
    return b"".join(texts)


def _parts(metric: Metric) -> Iterator[Sequence[Sample]]:
    late_names = tuple(metric.name + suffix for suffix in _LAST)
    late = [each for each in metric.samples if each.name in late_names]
    others = [each for each in metric.samples if each.name not in late_names]
    for start in range(0, len(others) or 1, _PART):
        yield others[start : start + _PART]
    if late:
        yield late


def _text(metric: Metric, samples: Sequence[Sample], *, is_first: bool) -> bytes:
    """Return the text of some samples of a metric, the first with its description."""
    some = copy(metric)
    some.samples = list(samples)
    if metric.type == "histogram":
        some.samples = [_with_go_bound(each) for each in samples]
    text = generate_latest(_Single(some))
    if not is_first:
        return text.split(b"\n", 2)[2]
    if metric.type == "counter" and any(each.name == metric.name for each in samples):
        # The client library announces every counter with the suffix.
        for line in (b"HELP", b"TYPE"):
            start = b"# %s %s" % (line, metric.name.encode())
            text = text.replace(start + b"_total ", start + b" ", 1)
    return text


class _Single(Collector):
    """A part of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        yield self._metric


def _with_go_bound(sample: Sample) -> Sample:
    bound = sample.labels.get("le")
    if bound is None or bound == "+Inf":
        return sample
    return sample._replace(labels={**sample.labels, "le": go_float(float(bound))})


@lru_cache(maxsize=1024)
def go_float(value: float) -> str:
    """Return a number as Go's strconv does with format g: 1, 0.005, 1.6e+07."""
    number = Decimal(repr(value)).normalize()
    _, digits, exponent = number.as_tuple()
    magnitude = len(digits) + int(exponent) - 1
    if -5 < magnitude < 6 or value == 0:  # noqa: PLR2004 - Go's limits
        return format(number, "f")
    text = "".join(map(str, digits))
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{mantissa}e{magnitude:+03d}"
