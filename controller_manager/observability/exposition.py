"""The text formats of /metrics, written as Go's client library writes them."""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from copy import copy
from decimal import Decimal
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

_PART: Final = 200
"""Samples that are written without giving way: about two milliseconds."""

_END: Final = b"# EOF\n"
"""The last line of OpenMetrics."""


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
    registry: CollectorRegistry,
    disabled: Collection[str] = (),
    *,
    open_metrics: bool = False,
) -> Generator[None, None, bytes]:
    """Write the registry in the text format, or in OpenMetrics.

    Bucket bounds are as Go writes them, in both. Prometheus 2 distinguishes series by
    the text of ``le``: a dashboard that queries ``le="1"`` does not find ``le="1.0"``.
    Metrics named in `disabled` are left out (``--disabled-metrics``).

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
            text = _text(metric, samples, open_metrics=open_metrics)
            # Only the first part describes the metric.
            texts.append(text if number == 0 else text.split(b"\n", 2)[2])
            written += len(samples)
            if written >= _PART:
                written = 0
                yield
    return b"".join([*texts, _END] if open_metrics else texts)


def _parts(metric: Metric) -> Iterator[Sequence[Sample]]:
    """Yield the samples, some at a time; Go's client library shows no creations."""
    created = f"{metric.name}_created"
    shown = [each for each in metric.samples if each.name != created]
    for start in range(0, len(shown) or 1, _PART):
        yield shown[start : start + _PART]


def _text(metric: Metric, samples: Sequence[Sample], *, open_metrics: bool) -> bytes:
    """Return the text of some samples of a metric, with its description."""
    some = copy(metric)
    some.samples = list(samples)
    if metric.type == "histogram":
        some.samples = [_with_go_bound(each) for each in samples]
    if metric.type == "counter" and any(each.name == metric.name for each in samples):
        # Both formats give a counter the suffix. OpenMetrics has a type for others.
        some.type = "unknown" if open_metrics else "gauge"
    if open_metrics:
        whole: bytes = openmetrics.generate_latest(_Single(some))  # type: ignore[no-untyped-call]
        return whole.removesuffix(_END)
    text = generate_latest(_Single(some))
    if some.type != metric.type:
        kind = b"# TYPE %s " % metric.name.encode()
        text = text.replace(kind + b"gauge", kind + b"counter", 1)
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


class PlainCounter(Counter):
    """A counter with exactly the given name; ``Counter`` would append ``_total``."""

    def _child_samples(self) -> Iterable[Sample]:
        """Return the count of one series; the suffix of its name comes first."""
        count, *_ = super()._child_samples()
        return [count._replace(name="")]
