"""The cluster, its users, its strangers, and managers that crash."""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from controller_manager.app import ControllerManager
from controller_manager.client.identities import Connections
from controller_manager.client.inmemory import InMemoryTransport
from controller_manager.client.leader_election import LeadershipLost
from controller_manager.clock import LoopClock
from controller_manager.devcluster.apiserver import APIServer
from controller_manager.devcluster.auth import User
from controller_manager.devcluster.kinds import Kind
from controller_manager.devcluster.nodes import Nodes
from controller_manager.devcluster.objects import Deletion
from controller_manager.devcluster.statuses import Refusal
from controller_manager.devcluster.storage import Stored
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import (
    ClientConfig,
    Config,
    GenericConfig,
    LeaderElectionConfig,
    RateLimit,
    ServingConfig,
)
from tests.clusters import EPOCH, TOKEN
from tests.controllers.builders import deployment_json
from tests.simulation.faults import WORLD_FAULTS, Faults
from tests.simulation.transport import FaultyTransport, Observer

JSON = dict[str, Any]

NAMESPACE: Final = "default"
NAMES: Final = ("api", "web", "worker")
_STEP: Final = 5.0


@dataclass
class Manager:
    """A manager, run again whenever it ends."""

    world: "World"
    number: int
    transport: FaultyTransport
    manager: ControllerManager | None = None
    task: "asyncio.Task[None] | None" = None
    starts: int = 0

    async def run(self) -> None:
        """Run for ever; it comes back a few seconds after it ended."""
        while True:
            await self._run_once()
            await asyncio.sleep(1 + 4 * self.world.rng.random())

    async def _run_once(self) -> None:
        self.starts += 1
        self.manager = ControllerManager(
            self.world.config,
            Connections(self.transport),
            clock=self.world.clock,
            rng=random.Random(f"{self.world.seed}/{self.number}/{self.starts}"),
            logger=silent_logger(),
        )
        self.task = asyncio.create_task(self.manager.run(asyncio.Event()))
        try:
            await asyncio.wait((self.task,))
        finally:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        if self.task.cancelled():
            return
        error = self.task.exception()
        if error is not None and not _is_expected(error):
            self.world.defects.append(error)

    def crash(self) -> None:
        """End it wherever it is."""
        if self.task is not None:
            self.task.cancel()


def _is_expected(error: BaseException) -> bool:
    """Tell whether a manager may end so: it has lost the lease."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_expected(each) for each in error.exceptions)
    return isinstance(error, LeadershipLost)


@dataclass
class World:
    """Everything that one seed makes."""

    seed: int
    faults: Faults
    managers_wanted: int = 1
    rng: random.Random = field(init=False)
    clock: LoopClock = field(init=False)
    server: APIServer = field(init=False)
    managers: list[Manager] = field(default_factory=list)
    defects: list[BaseException] = field(default_factory=list)
    config: Config = field(init=False)
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"world {self.seed}")
        self.clock = LoopClock(EPOCH)
        self.server = APIServer(
            clock=self.clock,
            rng=random.Random(f"server {self.seed}"),
            users={TOKEN: User("admin", groups=("system:masters",))},
        )
        self.config = Config(
            client=ClientConfig(limit=RateLimit(0, 0)),
            generic=GenericConfig(
                leader_election=LeaderElectionConfig(
                    leader_elect=self.managers_wanted > 1
                )
            ),
            serving=ServingConfig(port=0),
        )
        for name in (NAMESPACE, "kube-system"):
            self.server.objects.create(
                self.kind("namespaces"), "", {"metadata": {"name": name}}
            )

    def kind(self, plural: str) -> Kind:
        group = "apps" if plural in ("deployments", "replicasets") else ""
        kind = self.server.catalogue.find(group, "v1", plural)
        assert kind is not None
        return kind

    def stored(self, plural: str) -> list[JSON]:
        """Return all objects of a resource in the namespace, by name."""
        collection = self.server.storage.collection(self.kind(plural).resource)
        found = [
            each.obj
            for each in collection
            if each.obj["metadata"]["namespace"] == NAMESPACE
        ]
        return sorted(found, key=lambda obj: str(obj["metadata"]["name"]))

    def start(self, observer_of: Callable[[Manager], Observer]) -> None:
        """Start nodes, collector and managers."""
        nodes = Nodes(self.server, self.clock, start_delay=2.0, grace_scale=0.1)
        nodes.register()
        self._go(nodes.run())
        self._go(self._collect_garbage())
        for number in range(self.managers_wanted):
            inner = InMemoryTransport(self.server, TOKEN)
            transport = FaultyTransport(inner, self.faults)
            manager = Manager(self, number, transport)
            transport.observer = observer_of(manager)
            self.managers.append(manager)
            self._go(manager.run())

    def _go(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                self.defects.append(outcome)

    # Users

    async def use(self, operations: int) -> None:
        """Do what users do, some time apart, the same for every fault plan."""
        rng = random.Random(f"users {self.seed}")
        for name in NAMES:
            self._create(name, rng)
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name = rng.choice(NAMES)
            change = rng.choice(_CHANGES)
            value = rng.random()
            self._edit(name, change, value)

    def _create(self, name: str, rng: random.Random) -> None:
        spec: JSON = {}
        if rng.random() < 0.2:
            spec["strategy"] = {"type": "Recreate"}
        else:
            spec["strategy"] = {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "maxSurge": rng.choice([0, 1, "25%", 3]),
                    "maxUnavailable": rng.choice([1, "25%", 2]),
                },
            }
        spec["minReadySeconds"] = rng.choice([0, 0, 3])
        deployment = deployment_json(name, rng.randrange(1, 7), **spec)
        kind = self.kind("deployments")
        self.server.objects.create(kind, NAMESPACE, deployment)

    def _edit(self, name: str, change: str, value: float) -> None:
        kind = self.kind("deployments")
        stored = self.server.objects.find(kind, NAMESPACE, name)
        obj = _copied(stored)
        spec = obj["spec"]
        match change:
            case "image":
                image = f"app:v{int(value * 5)}"
                spec["template"]["spec"]["containers"][0]["image"] = image
            case "scale":
                spec["replicas"] = int(value * 8)
            case "pause":
                spec["paused"] = not spec.get("paused", False)
            case "restart":
                annotations = spec["template"]["metadata"].setdefault("annotations", {})
                annotations["restartedAt"] = f"{value:.6f}"
        self.server.objects.update(kind, NAMESPACE, name, obj)

    def resume_all(self) -> None:
        """Let every paused deployment go on, so that there is an end."""
        for deployment in self.stored("deployments"):
            if deployment["spec"].get("paused"):
                self._edit(deployment["metadata"]["name"], "pause", 0.0)

    # Strangers

    async def disturb(self) -> None:
        """Do, for ever, what nobody should."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_STEP)
            fault = self.faults.draw(WORLD_FAULTS, "world", loop.time())
            if fault is not None:
                self._disturb(fault)

    def _disturb(self, fault: str) -> None:
        rng = self.faults.rng
        if fault == "crash":
            rng.choice(self.managers).crash()
            return
        if fault == "lease cut off":
            now = asyncio.get_running_loop().time()
            way = rng.choice(self.managers).transport
            way.no_lease_until = now + rng.uniform(5, 60)
            return
        plural = "pods"
        if fault in ("replicas edited", "annotation added", "status overwritten"):
            plural = rng.choice(["replicasets", "deployments"])
        found = self.stored(plural)
        if not found:
            return
        obj = rng.choice(found)
        try:
            self._spoil(fault, plural, obj)
        except Refusal:
            return  # it changed meanwhile

    def _spoil(self, fault: str, plural: str, obj: JSON) -> None:
        kind, objects = self.kind(plural), self.server.objects
        name = obj["metadata"]["name"]
        changed = _copied(Stored(obj, 0))
        match fault:
            case "pod deleted":
                objects.delete(kind, NAMESPACE, name, Deletion.parse({}, {}))
            case "pod failed":
                changed["status"] = {**changed.get("status", {}), "phase": "Failed"}
                objects.update(kind, NAMESPACE, name, changed, "status")
            case "labels edited":
                changed["metadata"]["labels"] = {"app": "stranger"}
                objects.update(kind, NAMESPACE, name, changed)
            case "owner removed":
                changed["metadata"].pop("ownerReferences", None)
                objects.update(kind, NAMESPACE, name, changed)
            case "replicas edited":
                if plural == "replicasets":
                    changed["spec"]["replicas"] = changed["spec"]["replicas"] + 1
                    objects.update(kind, NAMESPACE, name, changed)
            case "annotation added":
                annotations = changed["metadata"].setdefault("annotations", {})
                annotations["stranger.example/mark"] = "kept"
                objects.update(kind, NAMESPACE, name, changed)
            case "status overwritten":
                changed["status"] = {"replicas": 99}
                objects.update(kind, NAMESPACE, name, changed, "status")

    async def _collect_garbage(self) -> None:
        """Stand in for the garbage collector, which this build has not."""
        while True:
            await asyncio.sleep(_STEP)
            uids = {
                obj["metadata"]["uid"]
                for plural in ("deployments", "replicasets")
                for obj in self.stored(plural)
            }
            for plural in ("replicasets", "pods"):
                for obj in self.stored(plural):
                    owners = obj["metadata"].get("ownerReferences", [])
                    gone = owners and not any(each["uid"] in uids for each in owners)
                    ended = obj.get("status", {}).get("phase") == "Failed"
                    if gone or (ended and self._is_old(obj)):
                        self.server.objects.delete(
                            self.kind(plural),
                            NAMESPACE,
                            obj["metadata"]["name"],
                            Deletion.parse({"gracePeriodSeconds": 0}, {}),
                        )

    def _is_old(self, obj: JSON) -> bool:
        created = obj["metadata"]["creationTimestamp"]
        age = self.clock.now() - timedelta(seconds=120)
        return str(created) < age.strftime("%Y-%m-%dT%H:%M:%SZ")


_CHANGES: Final = ("image", "image", "scale", "scale", "pause", "restart")


def _copied(stored: Stored) -> JSON:
    copy: JSON = json.loads(stored.encoded)
    return copy
