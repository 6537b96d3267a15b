"""The text format of /metrics, written as Go's client library writes it."""

from collections.abc import Collection, Iterable
from decimal import Decimal

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample


def expose(registry: CollectorRegistry, disabled: Collection[str] = ()) -> bytes:
    """Return the registry in the text format, with bucket bounds as Go writes them.

    Prometheus distinguishes series by the text of ``le``: a dashboard that queries
    ``le="1"`` does not find ``le="1.0"``. Metrics named in `disabled` are left out
    (``--disabled-metrics``).
    """
    view = _GoBounds(registry, disabled)
    text = generate_latest(view)
    for name in view.plain_counters:
        # The client library announces every counter with the suffix.
        for line in (b"HELP", b"TYPE"):
            start = b"# %s %s" % (line, name.encode())
            text = text.replace(start + b"_total ", start + b" ")
    return text


class _GoBounds(CollectorRegistry):
    """A view of a registry with the bounds of histograms rewritten."""

    def __init__(self, inner: CollectorRegistry, disabled: Collection[str]) -> None:
        super().__init__()
        self._inner = inner
        self._disabled = frozenset(disabled)
        self.plain_counters: list[str] = []
        """The names of counters whose series do not end in ``_total``."""

    def collect(self) -> Iterable[Metric]:
        for metric in self._inner.collect():
            total = f"{metric.name}_total" if metric.type == "counter" else metric.name
            if {metric.name, total} & self._disabled:
                continue
            if metric.type == "histogram":
                metric.samples = [_with_go_bound(each) for each in metric.samples]
            if metric.type == "counter" and any(
                each.name == metric.name for each in metric.samples
            ):
                self.plain_counters.append(metric.name)
            yield metric


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
