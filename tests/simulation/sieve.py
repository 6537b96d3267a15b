"""Every write of every recorded scenario, broken in every way; nothing is random.

The three patterns are those of Sieve (Sun et al., OSDI 2022), which found that
controllers fail in states that are intermediate, stale or unobserved. A scenario
is played once undisturbed, which numbers its writes; then again, from the
beginning, for each write and each pattern.
"""

import asyncio
import contextvars
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.registry import registry
from tests.clusters import TOKEN, Cluster
from tests.conformance.endpoints import merged
from tests.conformance.recordings import RECORDINGS, Recording
from tests.simulation.changes import differences
from tests.simulation.checks import UNCHECKED
from tests.simulation.finding import find_properties
from tests.simulation.managers import WorkClock
from tests.simulation.network import (
    WATCHED,
    Connection,
    LiveStream,
    OldReplica,
    forget_history,
    outside,
    sleep_until,
)
from tests.simulation.objects import Target, target_of
from tests.simulation.properties import Properties, Write
from tests.simulation.rules import WriteRules
from tests.simulation.runner import run
from tests.simulation.state import State
from tests.simulation.writers import WRITER, track_writers

PATTERNS: Final = {
    "crash before": "intermediate state: ended right before the write, started again",
    "crash after": "intermediate state: ended right after the write, started again",
    "stale restart": "stale state: started again on a replica from before the write",
    "stale takeover": "stale state: a standby that has not seen it takes over",
    "unobserved": "unobserved state: ten seconds pass unseen, then all is read anew",
}

_WITH_A_START: Final = tuple(each for each in PATTERNS if each != "unobserved")

LEFT_OUT: Final = {
    # They wait for a state that ends by itself, earlier than these patterns.
    **dict.fromkeys(
        ("ds-min-ready", "sts-min-ready"),
        ("stale restart", "stale takeover", "unobserved"),
    ),
    # A process that starts gives ranges away from the first free one on.
    "nodeipam-released": _WITH_A_START,
    # A process that starts does not know by how much the last one has scaled.
    **dict.fromkeys(("hpa-down-policies", "hpa-up-policies"), _WITH_A_START),
    # A process that starts deletes Endpoints that wait for their service.
    "eps-mirroring-skipped": _WITH_A_START,
    # A process that starts taints the first node of a zone at once.
    "noderate-one-zone": _WITH_A_START,
}
"""The patterns after which a scenario goes on in another way, by scenario.

Only the properties are checked then. Upstream's manager does the same when it starts.
"""

_POLL: Final = 0.5
_RESTART: Final = 0.5
_STALE: Final = 8.0
_UNSEEN: Final = 10.0


@dataclass(frozen=True, slots=True)
class Break:
    """One fault: a pattern, at the write with this number (from 0)."""

    pattern: str
    write: int

    def __str__(self) -> str:
        return f"{self.pattern} {self.write}"


LOST: Final = {
    "lastScaleTime": tuple(PATTERNS),
    "secrets": ("crash before",),
    "timeAdded": tuple(PATTERNS),
}
"""Fields that a crash may lose, and the patterns that lose them.

An autoscaler scales its target, and then writes when. A deleted token is taken off the
list `secrets` of its account. Nothing in the cluster tells the next process of either:
a listed secret may be one that a user is about to create. The API server gives a new
node a taint without a time, which stays if no manager takes it off before the node is
unhealthy. All this is so with upstream, too.
"""


@dataclass(frozen=True, slots=True)
class SieveResult:
    """The result of a run, without events: a crash may lose some of those."""

    checkpoints: list[JSON]
    writes: list[str]
    violations: list[str]
    patterns: tuple[str, ...] = tuple(PATTERNS)
    """The ways in which the writes of this recording may be broken."""


@dataclass
class _Process:
    """One run of a manager; the writes of all runs are numbered together."""

    sieve: "_Sieve"
    connection: Connection
    alive: bool = True
    task: "asyncio.Task[None] | None" = None

    @property
    def host(self) -> str:
        return self.connection.host

    async def request(self, request: Request) -> Response:
        if not self.alive:
            msg = "this process has ended"
            raise TransportError(msg)
        return await outside(self._request(request, WRITER.get()))

    async def _request(self, request: Request, writer: str) -> Response:
        await asyncio.sleep(0.001)
        self.connection.check(request)
        target = target_of(request.path)
        if request.method == "GET" or target.plural in UNCHECKED:
            return await self.connection.request(request)
        number = self.sieve.sent(f"{request.method} {request.path}")
        await self.sieve.before(self, number)
        before = self.sieve.find(target)
        answer = await self.connection.request(request)
        after = self.sieve.find(target) if answer.status < 300 else None
        write = Write(writer, target, request, answer, before, after)
        await self.sieve.after(self, number, write)
        return answer

    async def stream(self, request: Request) -> Stream:
        self.connection.check(request)
        inner = await outside(self.connection.stream(request))
        return LiveStream(
            inner, self.connection, self._fed(inner, request), request.timeout
        )

    async def _fed(self, inner: Stream, request: Request) -> Any:
        async for chunk in inner.chunks():
            await sleep_until(self.connection.lag_of(request))
            yield chunk

    def crash(self) -> None:
        self.alive = False
        if self.task is not None:
            self.task.cancel()

    async def close(self) -> None:
        pass


@dataclass
class _Sieve:
    """Plays one scenario, and breaks at most one write."""

    cluster: Cluster
    broken: Break | None
    recording: Recording
    more_properties: tuple[str, ...]
    writes: list[str] = field(default_factory=list)
    processes: list[_Process] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    state: State = field(init=False)
    properties: list[Properties] = field(init=False)
    _starts: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.state = State(self.cluster.server)
        found = find_properties(self.more_properties)
        self.properties = [each(self.state) for each in found]
        self._rules = WriteRules(found)

    def find(self, target: Target) -> JSON | None:
        """Return the object that a write names, `None` without a name."""
        if not target.name:
            return None
        return self.state.find(target.plural, target.namespace, target.name)

    def sent(self, what: str) -> int:
        """Record a write and return its number."""
        self.writes.append(what)
        return len(self.writes) - 1

    def _is_broken(self, pattern: str, number: int) -> bool:
        return self.broken == Break(pattern, number)

    async def before(self, process: _Process, number: int) -> None:
        if self._is_broken("crash before", number):
            await self._end(process)
        for pattern in ("stale restart", "stale takeover"):
            if self._is_broken(pattern, number):
                # The state that a replica, or a standby, has seen so far.
                self._let_lag(process, self.cluster.server.storage.version)

    def _let_lag(self, process: _Process, version: int) -> None:
        for each in self.processes:
            if each is not process:
                until = each.connection.now() + 20 + _STALE
                each.connection.lagging = dict.fromkeys(WATCHED, until)
        process.connection.old = OldReplica(version, process.connection.now() + _STALE)

    async def after(self, process: _Process, number: int, write: Write) -> None:
        self.violations += self._rules.problems(write)
        for each in self.properties:
            self.violations += each.broken_invariants()
        for pattern in ("crash after", "stale restart", "stale takeover"):
            if self._is_broken(pattern, number):
                await self._end(process)
        if self._is_broken("unobserved", number):
            self._blind(process)

    async def _end(self, process: _Process) -> None:
        process.crash()
        await asyncio.sleep(3600)

    def _blind(self, process: _Process) -> None:
        """Break all watches, and drop the history until they are open again."""
        process.connection.cut()
        loop = asyncio.get_running_loop()
        until = loop.time() + _UNSEEN
        process.connection.lagging = dict.fromkeys(WATCHED, until)
        world = contextvars.Context()
        loop.call_at(until - 0.01, forget_history, self.cluster.server, context=world)
        loop.call_at(until - 0.005, process.connection.cut, context=world)

    async def keep_running(self, connection: Connection, *, elected: bool) -> None:
        """Run a manager on a connection; start it again whenever it has ended."""
        config = self.recording.config(
            leader_election=LeaderElectionConfig(leader_elect=elected)
        )
        while True:
            process = _Process(self, connection)
            self.processes.append(process)
            manager = ControllerManager(
                config,
                Connections(process, root_ca="PEM"),
                clock=self.cluster.clock,
                rng=random.Random(next(self._starts)),
                logger=silent_logger(),
                work_clock=WorkClock(),
                build=registry(),
            )
            process.task = asyncio.create_task(manager.run(asyncio.Event()))
            try:
                await asyncio.wait((process.task,))
            finally:
                process.crash()
                await asyncio.gather(process.task, return_exceptions=True)
                self.processes.remove(process)
            await asyncio.sleep(_RESTART)


@dataclass
class _Managers:
    """The manager of a scenario; two if one is to take over from the other."""

    sieve: _Sieve
    _running: "list[asyncio.Task[None]]" = field(default_factory=list)

    async def start(self) -> None:
        broken = self.sieve.broken
        elected = broken is not None and broken.pattern == "stale takeover"
        for _ in range(2 if elected else 1):
            connection = Connection(self.sieve.cluster.transport)
            running = self.sieve.keep_running(connection, elected=elected)
            self._running.append(asyncio.create_task(running))
            await asyncio.sleep(5)

    async def stop(self) -> None:
        for each in self._running:
            each.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running.clear()

    def created(self) -> list[JSON]:
        # Only events name what no checkpoint shows, and events are not compared.
        return []


def play_scenario(
    name: str, broken: Break | None = None, more_properties: tuple[str, ...] = ()
) -> SieveResult:
    """Return the result of a recorded scenario, with one write broken or none."""
    with track_writers():
        return run(_play(RECORDINGS[name], broken, more_properties))


async def _play(
    recording: Recording, broken: Break | None, more_properties: tuple[str, ...]
) -> SieveResult:
    cluster = recording.cluster()
    node = cluster.server.catalogue.find("", "v1", "nodes")
    assert node is not None
    if not recording.config().pod_ranges.allocate:
        # The node that pods name; pods of an unknown node would be deleted. In
        # recordings without pods it would take a range from other nodes.
        cluster.server.objects.create(node, "", {"metadata": {"name": "fake-0"}})
    sieve = _Sieve(cluster, broken, recording, more_properties)
    managers = _Managers(sieve)
    player = recording.player(
        InMemoryTransport(cluster.server, TOKEN),
        cluster.clock,
        managers,
        quiet=recording.settled_after,
        poll=_POLL,
        patience=3 * recording.settled_after,
    )
    await managers.start()
    try:
        checkpoints = await player.play(recording.steps)
    finally:
        await managers.stop()
    checkpoints = [each for each in checkpoints if "state" in each]
    for each in checkpoints:
        each["state"].pop("Event", None)
        each["state"] = merged(each["state"])
        for deployment in each["state"].get("Deployment", []):
            _drop_progress(deployment)
    # Within a minute no standby takes over and comes to rest.
    without = {"stale takeover"} if recording.goes_by_minutes else set()
    patterns = tuple(each for each in PATTERNS if each not in without)
    return SieveResult(checkpoints, sieve.writes, sieve.violations, patterns)


def _drop_progress(deployment: JSON) -> None:
    """Drop the progress of a rollout that is under way: it depends on the moment.

    Keep whether the rollout is complete or past its deadline.
    """
    status, wanted = deployment["status"], deployment["spec"]["replicas"]
    sizes = (status.get("updatedReplicas", 0), status.get("availableReplicas", 0))
    if sizes == (wanted, wanted):
        return
    status["conditions"] = [
        each
        for each in status.get("conditions", [])
        if each["type"] != "Progressing" or each["status"] == "False"
    ]


def breaks_of(reference: SieveResult) -> Iterator[Break]:
    """Yield every fault that is possible in a run."""
    for number in range(len(reference.writes)):
        for pattern in reference.patterns:
            yield Break(pattern, number)


def problems_with(
    name: str,
    broken: Break,
    reference: SieveResult,
    more_properties: tuple[str, ...] = (),
) -> list[str]:
    """Return how a broken run differs from the undisturbed one."""
    try:
        played = play_scenario(name, broken, more_properties)
    except AssertionError as error:
        if broken.pattern in LEFT_OUT.get(name, ()):
            return []
        return [f"{name}, {broken}: {error}"]
    problems = [f"{name}, {broken}: {each}" for each in played.violations]
    if broken.pattern in LEFT_OUT.get(name, ()):
        return problems
    for ours, theirs in zip(played.checkpoints, reference.checkpoints, strict=True):
        for path, wanted, got in differences(theirs["state"], ours["state"]):
            if broken.pattern in LOST.get(path[-1], ()):
                continue
            problems.append(
                f"{name}, {broken} ({reference.writes[broken.write]}): at "
                f"{theirs['check']!r}: {'.'.join(path)}: {got}, undisturbed: {wanted}"
            )
    return problems
