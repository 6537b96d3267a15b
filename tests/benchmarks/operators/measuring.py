"""The work of the three operators, and the figures of one run."""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.benchmarks.clusters import BenchCluster, cluster_for
from tests.benchmarks.contenders import Contender, Running
from tests.benchmarks.driver import Driver, DriverError, checked
from tests.benchmarks.machine import proportional_of, usage_of
from tests.benchmarks.measuring import Figures, until_calm
from tests.benchmarks.operators.with_sdk import CONTROLLER
from tests.benchmarks.server import NAMESPACE

_HERE: Final = Path(__file__).parent
_RUN: Final = f"env KUBECONFIG={{kubeconfig}} {sys.executable}"
_OURS: Final = f"{_RUN} {_HERE}/with_sdk.py --leader-elect=false --secure-port={{port}}"
_KOPF: Final = f"{_RUN} -m kopf run --standalone --all-namespaces {_HERE}/with_kopf.py"
CONTENDERS: Final = {
    "sdk": Contender("sdk", _OURS),
    "kopf": Contender("kopf", _KOPF),
    "asyncio": Contender("asyncio", f"{_RUN} {_HERE}/with_asyncio.py"),
}

WIDGETS: Final = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PATIENCE: Final = 300.0
"""Seconds after which a change counts as never handled."""

_CHANGES: Final = 200
_MENDED: Final = 20
_REST: Final = 8.0
"""Seconds after the last work; kopf keeps a task of each object for five."""

_WINDOW: Final = 10.0


def color_of(config_map: JSON) -> str:
    """Return the colour in a config map."""
    return str(config_map.get("data", {}).get("color"))


def observed(widget: JSON) -> str:
    """Return the colour of a widget whose status is up to date, else nothing."""
    done = widget.get("status", {}).get("observedGeneration")
    is_done = done == widget["metadata"]["generation"]
    return str(widget["spec"]["color"]) if is_done else ""


@dataclass
class User:
    """Writes widgets, and sees when the operator has brought them about."""

    driver: Driver

    def __post_init__(self) -> None:
        self._colors: dict[str, str] = {}
        self._maps: dict[str, str] = {}
        self._statuses: dict[str, str] = {}
        self.map_right_at: dict[str, float] = {}
        self._left: set[str] = set()
        self._done = asyncio.Event()
        self._number = 0

    def _color(self, name: str) -> str:
        self._number += 1
        self._colors[name] = f"color-{self._number}"
        return self._colors[name]

    async def create(self, name: str) -> None:
        """Create a widget."""
        spec = {"color": self._color(name), "replicas": 3}
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.driver.call("POST", WIDGETS, body)

    async def change(self, name: str) -> None:
        """Give a widget another colour."""
        patch = {"spec": {"color": self._color(name)}}
        await self.driver.call("PATCH", f"{WIDGETS}/{name}", patch)

    async def damage(self, name: str) -> None:
        """Change the config map of a widget."""
        self._maps.pop(name, None)
        patch = {"data": {"color": "wrong"}}
        await self.driver.call("PATCH", f"{CONFIG_MAPS}/{name}", patch)

    async def remove(self, name: str) -> None:
        """Delete the config map of a widget."""
        self._maps.pop(name, None)
        await self.driver.call("DELETE", f"{CONFIG_MAPS}/{name}", missing=True)

    async def outdate(self, names: Iterable[str]) -> None:
        """Delete all config maps, and change all widgets."""
        await self.driver.call("DELETE", CONFIG_MAPS)
        await asyncio.gather(*map(self.change, names))

    def is_right(self, name: str) -> bool:
        """Tell whether config map and status of a widget were seen to be right."""
        wanted = self._colors[name]
        return self._maps.get(name) == wanted == self._statuses.get(name)

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None, None]:
        """See all changes while entered."""
        self._maps.clear()
        self._statuses.clear()
        tasks = [
            asyncio.create_task(self._follow(WIDGETS, self._statuses, observed)),
            asyncio.create_task(self._follow(CONFIG_MAPS, self._maps, color_of)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(
        self, path: str, seen: dict[str, str], value: Callable[[JSON], str]
    ) -> None:
        while True:
            listed = await self.driver.call("GET", path)
            for each in listed["items"]:
                self._see(seen, each["metadata"]["name"], value(each))
            version = listed["metadata"]["resourceVersion"]
            async with aclosing(self.driver.watch(path, version)) as events:
                async for kind, obj in events:
                    if kind == "ERROR":
                        break
                    gone = kind == "DELETED"
                    self._see(seen, obj["metadata"]["name"], "" if gone else value(obj))

    def _see(self, seen: dict[str, str], name: str, value: str) -> None:
        seen[name] = value
        if seen is self._maps and value == self._colors[name]:
            self.map_right_at[name] = time.monotonic()
        if name in self._left and self.is_right(name):
            self._left.discard(name)
            if not self._left:
                self._done.set()

    async def until_right(self, names: Iterable[str], running: Running) -> float:
        """Return when the last of these widgets was right."""
        self._left = {each for each in names if not self.is_right(each)}
        self._done.clear()
        if self._left:
            await checked(self._done.wait(), running.check)
        return time.monotonic()

    async def asked(self, name: str, *, for_status: bool = True) -> float:
        """Ask until a widget is right, at most `PATIENCE`; return the seconds."""
        started = time.monotonic()
        while (passed := time.monotonic() - started) < PATIENCE:
            found = await self.driver.call("GET", f"{CONFIG_MAPS}/{name}", missing=True)
            widget = await self.driver.call("GET", f"{WIDGETS}/{name}")
            wanted = self._colors[name]
            is_done = observed(widget) == wanted or not for_status
            if color_of(found) == wanted and is_done:
                return passed
            await asyncio.sleep(0.02)
        return PATIENCE


@dataclass
class Trial:
    """The steps of one run."""

    cluster: BenchCluster
    user: User
    objects: int
    figures: Figures

    @property
    def names(self) -> list[str]:
        """The names of the widgets."""
        return [f"w-{number:05}" for number in range(self.objects)]

    def some(self, first: int, count: int) -> list[str]:
        """Return names of a part of the widgets; steps take different parts."""
        return [self.names[(first + each) % self.objects] for each in range(count)]

    @asynccontextmanager
    async def step(
        self, title: str, running: Running, names: Iterable[str], started: float = 0.0
    ) -> AsyncGenerator[None, None]:
        """Measure until these widgets are right, and the operator rests."""
        server = self.cluster.server
        await self.cluster.counts()
        spent = usage_of(server.pid).cpu if server else 0.0
        before = 0.0 if started else running.usage().cpu
        started = started or time.monotonic()
        yield
        wall = await self.user.until_right(names, running) - started
        await until_calm(running)
        self.figures[f"{title}: wall, s"] = wall
        self.figures[f"{title}: CPU, s"] = running.usage().cpu - before
        if server is not None:
            self.figures[f"{title}: CPU of the API server, s"] = (
                usage_of(server.pid).cpu - spent
            )
        for verb, count in (await self.cluster.counts() or {}).items():
            self.figures[f"{title}: {verb}"] = count

    async def work(self, running: Running) -> None:
        """Create all widgets at once; then rest, react, mend."""
        await self.user.create("first")
        await self.user.until_right(["first"], running)
        await until_calm(running)
        async with self.step("burst", running, self.names):
            await asyncio.gather(*map(self.user.create, self.names))
        await self._rest(running)
        await self._react(running)
        await self._mend("damaged", self.user.damage, 300, running)
        await self._mend("removed", self.user.remove, 400, running)

    async def _rest(self, running: Running) -> None:
        await asyncio.sleep(_REST)
        before = running.usage()
        await asyncio.sleep(_WINDOW)
        cpu = running.usage().cpu - before.cpu
        self.figures |= {
            "rest: CPU a second, ms": 1000 * cpu / _WINDOW,
            "rest: resident, MB": before.resident,
            "rest: proportional, MB": proportional_of(running.process.pid),
            "rest: peak, MB": before.peak,
        }

    async def _react(self, running: Running) -> None:
        times, before = [], running.usage().cpu
        for name in self.some(100, _CHANGES):
            started = time.monotonic()
            await self.user.change(name)
            await self.user.until_right([name], running)
            times.append(1000 * (self.user.map_right_at[name] - started))
            await asyncio.sleep(0.05)
        self.figures |= {
            "reaction: median, ms": statistics.median(times),
            "reaction: p99, ms": sorted(times)[int(0.99 * len(times))],
            "reaction: CPU, ms": 1000 * (running.usage().cpu - before) / _CHANGES,
        }

    async def _mend(
        self, title: str, harm: Callable[[str], object], first: int, running: Running
    ) -> None:
        times = []
        for name in self.some(first, _MENDED):
            started = time.monotonic()
            await harm(name)  # type: ignore[misc]
            times.append(await self.user.until_right([name], running) - started)
        self.figures[f"{title}: median, ms"] = 1000 * statistics.median(times)

    async def faults(self) -> None:
        """Refuse a status, and lose watches together with what they would bring."""
        name, *others = self.some(500, 7)
        await self.cluster.refuse_next("widgets.example.com/status", name)
        await self.user.change(name)
        self.figures["conflict, s"] = await self.user.asked(name)
        for ending in ("CUT", "EXPIRED", "SILENT"):
            changed, removed, *others = others
            await self.cluster.lose_watches(ending, removed)
            await self.user.change(changed)
            seconds = await asyncio.gather(
                self.user.asked(changed), self.user.asked(removed, for_status=False)
            )
            self.figures[f"{ending}: changed widget, s"] = seconds[0]
            self.figures[f"{ending}: deleted config map, s"] = seconds[1]

    async def missed(self) -> list[str]:
        """Change widgets and config maps while no operator runs."""
        changed, damaged, removed = (self.some(each, 10) for each in (600, 700, 800))
        for name in changed:
            await self.user.change(name)
        for name in damaged:
            await self.user.damage(name)
        for name in removed:
            await self.user.remove(name)
        return [*changed, *damaged, *removed]


async def define(driver: Driver) -> None:
    """Create the definition of widgets, and wait until they are served."""
    (definition,) = CONTROLLER.definitions
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await driver.call("POST", path, definition.manifest(), missing=True)
    served = False
    while not served:
        await asyncio.sleep(0.1)
        # A real API server answers with 404 as plain text, then with 429, then serves.
        with suppress(DriverError, ValueError):
            served = "items" in await driver.call("GET", WIDGETS)


async def measure(
    contender: Contender,
    objects: int,
    kubeconfig: Path | None,
    log: Path,
    *,
    faults: bool,
) -> Figures:
    """Return the figures of an operator with so many widgets.

    `faults` needs a cluster of our own, which `kubeconfig` is not.
    """
    async with cluster_for(kubeconfig, 0, nodes=0) as cluster:
        await define(cluster.driver)
        trial = Trial(cluster, User(cluster.driver), objects, {})
        with contender.running(cluster.kubeconfig, log) as running:
            async with trial.user.watching():
                await trial.work(running)
            if faults and cluster.server is not None:
                await trial.faults()
        for title in ("restart", "start"):
            names = trial.names if title == "start" else await trial.missed()
            if title == "start":
                await trial.user.outdate(names)
            with contender.running(cluster.kubeconfig, log) as running:
                started = running.started
                async with (
                    trial.user.watching(),
                    trial.step(title, running, names, started),
                ):
                    pass
        return trial.figures
