"""Metrics as text."""

import asyncio
from collections.abc import Callable, Iterable

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from controller_manager.observability import exposition
from controller_manager.observability.metrics.collectors import KeptRegistry
from tests.steps import parts_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.005, "0.005"),
        (64.0, "64"),
        (262144.0, "262144"),
        (1048576.0, "1.048576e+06"),
        (9.999999999999999e-06, "9.999999999999999e-06"),
        (1e-08, "1e-08"),
        (2592000.0, "2.592e+06"),
    ],
)
def test_bounds_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert exposition.go_float(value) == text


def test_a_plain_counter_has_exactly_its_name() -> None:
    """The client library would append a suffix that upstream's does not have."""
    registry = CollectorRegistry()
    counter = exposition.PlainCounter(
        "slice_changes", "Changes", ["operation"], registry=registry
    )
    counter.labels("create")
    counter.labels("update").inc(2)
    assert exposition.expose(registry).decode().splitlines() == [
        "# HELP slice_changes Changes",
        "# TYPE slice_changes counter",
        'slice_changes{operation="create"} 0.0',
        'slice_changes{operation="update"} 2.0',
    ]
    assert exposition.expose(registry, ("slice_changes",)) == b""


def test_openmetrics_has_the_bounds_of_the_text_format() -> None:
    """A scraper that asks for another format must not see other series.

    A counter without the suffix has no type in OpenMetrics.
    """
    registry = CollectorRegistry()
    Histogram("h_seconds", "So long.", registry=registry, buckets=(0.5, 1)).observe(0.7)
    exposition.PlainCounter("plain", 'It counts, as a "gauge"', registry=registry).inc()
    Counter("c_total", "So many.", registry=registry).inc()
    text, _ = parts_of(exposition.exposing(registry, open_metrics=True))
    assert text.decode().splitlines() == [
        "# HELP h_seconds So long.",
        "# TYPE h_seconds histogram",
        'h_seconds_bucket{le="0.5"} 0.0',
        'h_seconds_bucket{le="1"} 1.0',
        'h_seconds_bucket{le="+Inf"} 1.0',
        "h_seconds_count 1.0",
        "h_seconds_sum 0.7",
        '# HELP plain It counts, as a \\"gauge\\"',
        "# TYPE plain unknown",
        "plain 1.0",
        "# HELP c So many.",
        "# TYPE c counter",
        "c_total 1.0",
        "# EOF",
    ]


def registry_of(metrics: int, series: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    for number in range(metrics):
        seconds = Histogram(
            f"m{number}_seconds", "Seconds", ("name",), registry=registry
        )
        for each in range(series):
            seconds.labels(f"s{each}").observe(0.1)
    return registry


@pytest.mark.slow
@pytest.mark.parametrize(("metrics", "series"), [(100, 5), (10, 50)])
def test_many_samples_are_written_in_parts(metrics: int, series: int) -> None:
    registry = registry_of(metrics, series)
    text, large = parts_of(exposition.exposing(registry))
    _, small = parts_of(exposition.exposing(registry_of(10, 5)))
    assert len(large) >= 20
    assert max(large) <= 2.5 * max(small)
    assert text == exposition.expose(registry)
    families = list(text_string_to_metric_families(text.decode()))
    names = [each.name for each in families]
    assert names == [f"m{number}_seconds" for number in range(metrics)]
    found = sum(
        each.name.endswith("_bucket") for family in families for each in family.samples
    )
    assert found == metrics * series * 15


class Things(Collector):
    """Shows the number of things, and gives way to other code meanwhile."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.things: dict[str, int] = {}
        self.on_collect: Callable[[], object] = lambda: None
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("things", "So many.", labels=("name",))
        for name, number in self.things.items():
            family.add_metric((name,), number)
            self.on_collect()
        yield family


async def test_another_thread_sees_the_values_of_the_last_refresh() -> None:
    shown = CollectorRegistry()
    kept = KeptRegistry(shown)
    things = Things(kept)
    things.things = {"a": 1}
    kept.refresh()
    # As if the main loop added one in the middle of a scrape by another thread.
    things.on_collect = lambda: things.things.update({str(len(things.things)): 0})
    value = shown.get_sample_value
    assert await asyncio.to_thread(value, "things", {"name": "a"}) == 1
    things.on_collect = lambda: None
    things.things["a"] = 2
    assert await asyncio.to_thread(value, "things", {"name": "a"}) == 1
    assert shown.get_sample_value("things", {"name": "a"}) == 2


async def test_metrics_of_the_client_library_are_never_old() -> None:
    """They have locks."""
    shown = CollectorRegistry()
    counter = Counter("events", "So many.", registry=KeptRegistry(shown))
    counter.inc()
    found = await asyncio.to_thread(shown.get_sample_value, "events_total")
    assert found == 1
