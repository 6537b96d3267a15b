"""What the daemon serves on its port."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from controller_manager.serving.server import HealthCheck, Server, ServingError

WELL: Mapping[str, HealthCheck] = {"a": lambda: None, "b": lambda: None}
ILL: Mapping[str, HealthCheck] = {"a": lambda: None, "b": lambda: "has stopped"}


@asynccontextmanager
async def serving(checks: Mapping[str, HealthCheck]) -> AsyncIterator[str]:
    registry = CollectorRegistry()
    scrapes = Gauge("scrapes", "So far.", registry=registry)
    server = Server(0, registry, lambda: checks, scrapes.inc)
    await server.start()
    yield f"http://127.0.0.1:{server.port}"
    await server.close()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("checks", "path", "expected"),
    [
        (WELL, "/healthz", (200, "ok")),
        (WELL, "/healthz?verbose", (200, "[+]a ok\n[+]b ok\nhealthz check passed\n")),
        (
            ILL,
            "/healthz",
            (500, "[+]a ok\n[-]b failed: has stopped\nhealthz check failed\n"),
        ),
    ],
)
async def test_health_is_ok_or_tells_what_fails(
    checks: Mapping[str, HealthCheck], path: str, expected: tuple[int, str]
) -> None:
    """A probe reads the status, a person the lines."""
    async with serving(checks) as url:
        assert await get(url + path) == expected


async def test_metrics_are_refreshed_before_each_scrape() -> None:
    """And Prometheus' own parser reads them."""
    async with serving(WELL) as url:
        await get(f"{url}/metrics")
        status, text = await get(f"{url}/metrics")
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert (status, values) == (200, {"scrapes": 2.0})


async def test_a_port_that_is_taken_is_named_with_the_mend() -> None:
    """One line, nothing left listening."""
    async with serving(WELL) as url:
        port = int(url.rpartition(":")[2])
        second = Server(port, CollectorRegistry(), lambda: WELL, lambda: None)
        with pytest.raises(ServingError) as raised:
            await second.start()
    assert str(raised.value) == (
        f"cannot serve on 127.0.0.1:{port}: the port is in use; choose another "
        "--secure-port, or 0 to serve nothing"
    )
