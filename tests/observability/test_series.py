"""Series of our own show what those of the client library show."""

import threading
from collections.abc import Callable
from typing import Any, Final

import prometheus_client
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from controller_manager.observability import series
from controller_manager.observability.exposition import expose
from tests.observability.switches import frequent_switches, unbroken

__all__ = ("frequent_switches",)

BUCKETS: Final = (1e-08, 9.999999999999999e-06, 0.005, 0.1, 1, 2.5, 60, 1048576)
LABELS: Final = ("group", "name")
TIMES: Final = 50_000
THREADS: Final = 4

Call = tuple[str, str, float]
"""The metric, the value of its second label, and a number."""

calls = st.lists(
    st.tuples(
        st.sampled_from(("counter", "gauge", "histogram", "none")),
        st.sampled_from(("a", 'b"\\\n', "")),
        st.sampled_from(BUCKETS) | st.floats(-10, 1e9) | st.integers(0, 2_000_000),
    ),
    max_size=30,
)


def exposed(library: Any, made: list[Call], expose: Callable[..., Any] = expose) -> Any:
    """Return a scrape of three metrics of a library after some calls."""
    registry = CollectorRegistry()
    counter = library.Counter("c_total", "So many.", LABELS, registry=registry)
    gauge = library.Gauge("g", 'At "present"\nhere.', LABELS, registry=registry)
    histogram = library.Histogram(
        "h_seconds", "So long.", LABELS, buckets=BUCKETS, registry=registry
    )
    for metric, label, number in made:
        match metric:
            case "counter":
                counter.labels("x", label).inc()
            case "gauge":
                gauge.labels("x", label).set(number)
            case "histogram":
                histogram.labels("x", label).observe(number)
            case _:
                for each in (counter, gauge, histogram):
                    each.labels("x", label)
    return expose(registry)


@pytest.fixture(autouse=True)
def no_times_of_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch them off in the library, as the manager does."""
    monkeypatch.setattr("prometheus_client.metrics._use_created", False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls)
def test_a_scrape_is_that_of_the_client_library(made: list[Call]) -> None:
    """Byte for byte, also before the first series and before the first event."""
    assert exposed(series, made) == exposed(prometheus_client, made)


def test_the_samples_are_those_of_the_client_library() -> None:
    """The bounds of buckets are written in the same way before the exposition, too."""
    made = [("histogram", "a", 0.2), ("counter", "a", 0.0), ("gauge", "a", 3)]

    def samples(registry: CollectorRegistry) -> list[object]:
        return [(each, each.samples) for each in registry.collect()]

    ours = exposed(series, made, samples)
    assert ours == exposed(prometheus_client, made, samples)


def test_two_metrics_of_one_name_are_refused() -> None:
    registry = CollectorRegistry()
    series.Gauge("g", "One.", LABELS, registry=registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        prometheus_client.Gauge("g", "Another one.", registry=registry)


def test_each_label_has_a_value() -> None:
    gauge = series.Gauge("g", "One.", LABELS, registry=CollectorRegistry())
    with pytest.raises(ValueError, match=r"g: \('a',\) for the labels"):
        gauge.labels("a")


@pytest.mark.usefixtures("frequent_switches")
def test_no_count_of_any_thread_is_lost() -> None:
    registry = CollectorRegistry()
    counter = series.Counter("c", "So many.", ("name",), registry)
    histogram = series.Histogram("h", "So long.", ("name",), (0.5,), registry)

    def count() -> None:
        for _ in range(TIMES):
            counter.labels("a").inc()
            histogram.labels("a").observe(1.0)

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = TIMES * THREADS
    names = ("c_total", "h_count", "h_sum")
    found = [registry.get_sample_value(name, {"name": "a"}) for name in names]
    assert found == [every] * 3


@pytest.mark.parametrize(
    "writing", [series.CounterSeries.inc, series.HistogramSeries.observe]
)
def test_nothing_lets_another_thread_in_between_the_read_and_the_write(
    writing: Callable[..., None],
) -> None:
    """CPython changes to another thread at calls and at jumps backwards only."""
    assert unbroken(writing)


def test_a_metric_may_get_a_series_while_it_is_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread may count meanwhile."""
    counter = series.Counter("c", "So many.", ("name",), CollectorRegistry())
    counter.labels("a")
    counter.labels("b")
    add = Metric.add_sample

    def add_and_count(metric: Metric, *sample: Any) -> None:
        if metric.name == "c":
            counter.labels(f"c{len(metric.samples)}")
        add(metric, *sample)

    monkeypatch.setattr(Metric, "add_sample", add_and_count)
    [metric] = counter.collect()
    shown = [sample.labels["name"] for sample in metric.samples]
    assert shown == ["a", "b"]
