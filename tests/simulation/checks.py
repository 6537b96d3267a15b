"""Invariants, checked at every write and in every turn of the event loop."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final
from unittest import mock

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.runtime.worker import Workers
from tests.simulation.fights import Fights
from tests.simulation.loop import PROCESS, VirtualLoop
from tests.simulation.managers import Manager
from tests.simulation.objects import controller_of, target_of
from tests.simulation.properties import Write
from tests.simulation.rules import WriteRules
from tests.simulation.world import World
from tests.simulation.writers import track_writers

MOST_SYNCS: Final = 100
"""Keys that one turn may sync: fifty are 5 ms here, and a few more may start
before the worker looks at its clock."""

_ADOPTION: Final = 90.0
"""Seconds that may pass between reading an owner and adopting for it, since the
process may be paused in between."""

HANDED_OVER: Final = ("persistentvolumeclaims",)
"""Plurals of objects that pass from one controller to another: a claim passes from
its stateful set to a pod that is scaled away, and back."""

UNCHECKED: Final = ("events", "leases")
"""Plurals of objects that every component writes, at any time."""


@dataclass
class Checks:
    """Checks every write of every manager."""

    world: World
    violations: list[str] = field(default_factory=list)
    writes: int = 0
    last_write: float = 0.0
    trace: list[str] = field(default_factory=list)
    rules: WriteRules = field(init=False)
    fights: Fights | None = None
    """The fields that go back and forth, from the moment when no more faults happen."""

    _syncs_of_turn: tuple[int, int, int] = (0, 0, 0)
    """A process, a turn of its loop, and the number of keys synced in that turn."""

    def __post_init__(self) -> None:
        self.rules = WriteRules(map(type, self.world.properties))

    def of(self, manager: Manager) -> "Observer":
        """Return the observer of one manager."""
        return Observer(self, manager)

    def violate(self, what: str) -> None:
        now = asyncio.get_running_loop().time()
        self.violations.append(f"{now:10.3f} s  {what}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch, while entered, the decisions of controllers, and who writes."""
        with ExitStack() as stack:
            stack.enter_context(track_writers())
            stack.enter_context(self._watching_turns())
            for each in self.world.properties:
                stack.enter_context(each.watching(self.violate))
            yield

    @contextmanager
    def _watching_turns(self) -> Iterator[None]:
        """Check how many keys a controller syncs before it yields."""
        process = Workers._process

        async def counted(workers: Workers, key: str) -> None:
            self._count_sync()
            await process(workers, key)

        with mock.patch.object(Workers, "_process", counted):
            yield

    def _count_sync(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        number, turn, syncs = self._syncs_of_turn
        now = PROCESS.get(), loop.turn
        syncs = syncs + 1 if now == (number, turn) else 1
        self._syncs_of_turn = (*now, syncs)
        if syncs == MOST_SYNCS:
            self.violate(f"{syncs} keys were looked at in one turn of the event loop")


@dataclass
class Observer:
    """Checks the writes of one manager."""

    checks: Checks
    manager: Manager
    _read: dict[str, float] = field(default_factory=dict)
    """When an owner was last read without a deletion timestamp, by its uid."""

    def before_write(self, request: Request) -> JSON | None:
        """Return the object of a write, as it is before the write."""
        for each in self.checks.world.properties:
            each.before_write()
        return self._object(request)

    def _object(self, request: Request) -> JSON | None:
        target = target_of(request.path)
        if not target.name:
            return None
        return self.checks.world.find(target.plural, target.namespace, target.name)

    def record_read(self, request: Request, answer: Response) -> None:
        """Record that an object, which may be an owner, is not being deleted."""
        if target_of(request.path).name and answer.status == 200:
            # A document of OpenAPI has no metadata.
            metadata = json.loads(answer.body).get("metadata", {})
            if "uid" in metadata and "deletionTimestamp" not in metadata:
                self._read[metadata["uid"]] = asyncio.get_running_loop().time()

    def after_write(
        self, request: Request, answer: Response, before: JSON | None, writer: str
    ) -> None:
        """Check a write, whether the server accepted it or not.

        An error of a check fails the run. The manager does not see it: it would take
        the error for that of its request, and try again for ever.
        """
        try:
            self._check_write(request, answer, before, writer)
        except Exception as error:  # noqa: BLE001 - the run fails with it
            self.checks.world.defects.append(error)

    def _check_write(
        self, request: Request, answer: Response, before: JSON | None, writer: str
    ) -> None:
        checks = self.checks
        target = target_of(request.path)
        if target.plural in UNCHECKED:
            return
        now = asyncio.get_running_loop().time()
        checks.trace.append(
            f"{now:.6f} {self.manager.number} {request.method} {request.path} "
            f"{answer.status}"
        )
        self._check_leadership(request)
        accepted = answer.status < 300
        after = self._object(request) if accepted else None
        late = self.manager.is_paused
        write = Write(writer, target, request, answer, before, after, late)
        for problem in checks.rules.problems(write):
            checks.violate(problem)
        if not accepted:
            return
        checks.writes += 1
        checks.last_write = now
        if checks.fights is not None:
            checks.fights.record(write)
        self._check_owner(write)
        for each in checks.world.properties:
            for problem in each.after_write(write):
                checks.violate(problem)

    def _check_leadership(self, request: Request) -> None:
        if self.manager.is_paused:
            return  # it was sent in time, and cannot be cancelled any more
        daemon = self.manager.manager
        elector = daemon.elector if daemon is not None else None
        if elector is None:
            return
        leases = self.checks.world.server.storage.collection(
            "leases.coordination.k8s.io"
        )
        lease = leases.get(("kube-system", "kube-controller-manager"))
        holder = lease.obj["spec"].get("holderIdentity") if lease else None
        if holder != elector.identity:
            self.checks.violate(
                f"manager {self.manager.number} wrote {request.method} {request.path} "
                f"while {holder} holds the lease"
            )

    def _check_owner(self, write: Write) -> None:
        """Check that no owner is replaced, and that no owner that is gone adopts."""
        if write.before is None or write.after is None or write.verb == "delete":
            return
        old, new = controller_of(write.before), controller_of(write.after)
        if old and new and old != new and write.target.plural not in HANDED_OVER:
            self.checks.violate(f"{write}: taken from its owner {old} by {new}")
        now = asyncio.get_running_loop().time()
        if new and not old and self._read.get(new, -_ADOPTION) + _ADOPTION <= now:
            self.checks.violate(f"{write}: adopted by {new}, who may be gone")
