"""Options and fixtures of all tests."""

import asyncio
import gc
import os
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from controller_manager.informers.views import UndeclaredReadError
from tests.clusters import Cluster

settings.register_profile(
    "shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared machine")
"""Absolute times say nothing on a machine that others use as well."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that plays the conformance suite on any cluster."""
    parser.addoption(
        "--kubeconfig",
        help="play the conformance scenarios on this cluster, with the manager of "
        "this build beside it",
    )


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run one process more than there are cores: some tests wait for real time.

    Scenarios on the cluster of --kubeconfig are played in one process. Each of them
    runs a manager of its own, and only one manager may act there.
    """
    on_cluster = bool(config.getoption("--kubeconfig"))
    return 0 if on_cluster else len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Select the scenarios on the cluster of --kubeconfig, or those in memory.

    Slow tests come first, so that no core waits for them at the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    on_cluster = bool(config.getoption("--kubeconfig"))
    wanted = [
        item
        for item in items
        if (item.get_closest_marker("real_cluster") is not None) == on_cluster
    ]
    if len(wanted) < len(items):
        config.hook.pytest_deselected(items=[i for i in items if i not in wanted])
        items[:] = wanted


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave aside in collections of garbage what stays until the end.

    Each manager and each simulated run collects garbage at its start. The tests and
    their modules are a million objects. What a manager would freeze is not frozen, so
    that the garbage of tests is collected.
    """
    gc.collect()
    gc.freeze()
    pytest.MonkeyPatch().setattr(gc, "freeze", _freeze_nothing)


def _freeze_nothing() -> None:
    """Stand for gc.freeze."""


@pytest_asyncio.fixture(autouse=True)
async def _whole_microseconds() -> None:
    """Let timers that are less than a microsecond apart fire together.

    Virtual time moves in microseconds; with a nearer timer the loop would turn
    forever without reaching it.
    """
    loop: Any = asyncio.get_running_loop()
    loop._clock_resolution = max(loop._clock_resolution, 2e-6)


@pytest_asyncio.fixture(autouse=True)
async def _no_leaked_tasks(
    request: pytest.FixtureRequest,
) -> AsyncGenerator[None, None]:
    """Fail a test that does not end its tasks."""
    before = asyncio.all_tasks()
    yield
    for _ in range(3):
        await asyncio.sleep(0)
    own = asyncio.current_task()
    leaked = [
        task
        for task in asyncio.all_tasks() - before
        if not task.done() and task is not own
    ]
    assert not leaked, f"{request.node.name} leaves tasks behind: {leaked}"


@pytest.fixture(autouse=True)
def _no_undeclared_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which a controller reads a field that it has not declared.

    Workers and informers catch the error, as any other, and go on.
    """
    found: list[str] = []

    def noted(self: UndeclaredReadError, text: str) -> None:
        found.append(text)
        Exception.__init__(self, text)

    monkeypatch.setattr(UndeclaredReadError, "__init__", noted)
    yield
    assert not found, sorted(set(found))


@pytest_asyncio.fixture
async def cluster() -> Cluster:
    """Return an API server in memory."""
    return Cluster()
