"""Options and fixtures of all tests."""

import asyncio
import gc
import inspect
import os
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final
from unittest.mock import Mock

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from controller_manager.informers.strict import UndeclaredReadError
from controller_manager.manager import caches
from tests.clusters import Cluster

# Absolute times say nothing on a machine that others use as well.
settings.register_profile(
    "of a seed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=40,  # hypothesis itself says 100
)
# Without a seed, hypothesis tries the same examples each time.
settings.register_profile(
    "same examples", settings.get_profile("of a seed"), derandomize=True
)
settings.load_profile("same examples")

NOOP_CYCLES: Final = 1
"""The turns in which virtual time waits for input from outside before it moves on.

The default of looptime, 42 turns of the loop for each timer, took a third of all tests.
"""

_OF_LOOP: Final = ("_whole_microseconds", "_no_leaked_tasks")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        help="play the conformance scenarios on this cluster, with the manager of "
        "this build beside it",
    )
    parser.addoption(
        "--seed",
        type=int,
        help="try other random examples and other seeds of the world",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take the seed, and leave no loop current outside of tests.

    pytest-asyncio would make one and never close it, when it looks for the loop that it
    has to restore.
    """
    asyncio.set_event_loop(None)
    if (seed := config.getoption("--seed")) is not None:
        config.option.hypothesis_seed = seed
        settings.load_profile("of a seed")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run a process on each core, and one more for slow tests, which wait.

    The quick tests compute all the time: a third process on two cores made them take
    248 s instead of 215 s.

    Scenarios on the cluster of --kubeconfig are played in one process. Each of them
    runs a manager of its own, and only one manager may act there.
    """
    if config.getoption("--kubeconfig"):
        return 0
    waits = "not slow" not in config.getoption("-m")
    return len(os.sched_getaffinity(0)) + waits


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Select the scenarios on the cluster of --kubeconfig, or those in memory.

    Slow tests come first, so that no core waits for them at the end.
    """
    items.sort(key=lambda item: not _is_long(item))
    for item in items:
        if isinstance(item, pytest.Function) and not _is_asynchronous(item):
            without_loop(item)
        if item.get_closest_marker("looptime") is not None:
            item.add_marker(pytest.mark.looptime(noop_cycles=NOOP_CYCLES))
        if item.get_closest_marker("slow") and item.get_closest_marker("nightly"):
            msg = f"{item.nodeid}: a test is slow or nightly, not both"
            raise pytest.UsageError(msg)
    on_cluster = bool(config.getoption("--kubeconfig"))
    wanted = [
        item
        for item in items
        if (item.get_closest_marker("real_cluster") is not None) == on_cluster
    ]
    if len(wanted) < len(items):
        kept = {id(item) for item in wanted}
        left = [item for item in items if id(item) not in kept]
        config.hook.pytest_deselected(items=left)
        items[:] = wanted


def _is_long(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(each) for each in ("slow", "nightly"))


def _is_asynchronous(item: pytest.Function) -> bool:
    inner = getattr(getattr(item.obj, "hypothesis", None), "inner_test", item.obj)
    return inspect.iscoroutinefunction(inner)


def without_loop(item: pytest.Function) -> None:
    """Take the fixtures of the event loop from a test that has none.

    Each of 9,000 tests would start and close a loop for them: three milliseconds.
    """
    item.fixturenames[:] = [each for each in item.fixturenames if each not in _OF_LOOP]


def pytest_report_header(config: pytest.Config) -> str:
    """Name the seed of the random examples, with which they can be replayed."""
    seed = config.getoption("--seed")
    return "random examples: the same in each run" if seed is None else f"seed: {seed}"


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave aside in collections of garbage what stays until the end.

    The tests and their modules are a million objects. A manager that starts in a test
    collects and freezes nothing: a frozen object would stay, and a fifth of the time of
    a simulated seed went into these collections.
    """
    gc.collect()
    gc.freeze()
    pytest.MonkeyPatch().setattr(caches, "gc", Mock(spec=gc))


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
    return Cluster()
