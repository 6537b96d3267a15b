"""Metrics of controllers, scraped by another thread."""

import asyncio
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller_manager.observability.metrics.collectors import KeptRegistry


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
