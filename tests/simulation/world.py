"""The cluster: its server, its nodes, and its users."""

import asyncio
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.clock import LoopClock
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.negotiation import check_object
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.controlplane import APIServer
from controller_manager.devcluster.kubelet.nodes import Nodes
from controller_manager.options.config import (
    ClientConfig,
    Config,
    GenericConfig,
    LeaderElectionConfig,
    RateLimit,
    ServingConfig,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import EPOCH, TOKEN
from tests.simulation.faults import Faults
from tests.simulation.finding import find_properties
from tests.simulation.managers import Manager
from tests.simulation.properties import Properties
from tests.simulation.state import State
from tests.simulation.transport import Observer
from tests.simulation.users import users_of
from tests.simulation.workload import Workload

NAMESPACE: Final = "default"
DELETABLE_NAMESPACE: Final = "shop"
"""A namespace that may be deleted with all its objects."""

_VERSION_INTERVAL: Final = 5.0
_POLL: Final = 1.0
_PATIENCE: Final = 3600
"""Seconds that a user waits for a deletion."""


class Stuck(Exception):
    """An object that was deleted does not go away."""


@dataclass
class World:
    """Everything that one seed creates."""

    seed: int
    faults: Faults
    managers_wanted: int = 1
    more_properties: tuple[str, ...] = ()
    """Modules with properties of controllers outside this tree, by dotted name."""

    users: frozenset[str] | None = None
    """The controllers whose users act; `None` leaves the choice to the seed."""

    clock: LoopClock = field(init=False)
    server: APIServer = field(init=False)
    managers: list[Manager] = field(default_factory=list)
    defects: list[BaseException] = field(default_factory=list)
    config: Config = field(init=False)
    versions: list[tuple[float, int]] = field(default_factory=list)
    """The resource version of the server at certain times."""

    state: State = field(init=False)
    properties: list[Properties] = field(init=False)
    workloads: list[Workload] = field(init=False)
    invented: set[str] = field(default_factory=set)
    """Names of kinds that objects refer to and that no server serves."""

    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = LoopClock(EPOCH)
        self.server = APIServer(
            clock=self.clock,
            rng=random.Random(f"server {self.seed}"),
            users={TOKEN: User("admin", groups=("system:masters",))},
            # Users have pods in groups.
            features=FeatureGates({"GenericWorkload": True}),
        )
        self.state = State(self.server)
        controllers = find_properties(self.more_properties)
        self.properties = [each(self.state) for each in controllers]
        if self.users is None:
            self.users = users_of(self.seed, controllers)
        # Several controllers may have the same users: they act once.
        acting = dict.fromkeys(
            each.workload
            for each in controllers
            if each.workload is not None and each.controller in self.users
        )
        self.workloads = [each(self) for each in acting]
        self.config = self._configured(controllers)
        for name in (NAMESPACE, "kube-system", "kube-node-lease"):
            self.create_namespace(name)

    def _configured(self, controllers: Iterable[type[Properties]]) -> Config:
        config = Config(
            client=ClientConfig(limit=RateLimit(0, 0)),
            generic=GenericConfig(
                leader_election=LeaderElectionConfig(
                    leader_elect=self.managers_wanted > 1
                )
            ),
            serving=ServingConfig(port=0),
        )
        for each in controllers:
            config = each.configured(config)
        return config

    # The server, as anybody sees it

    def kind(self, plural: str) -> Kind:
        """Return the kind of objects with that plural name."""
        return self.state.kind(plural)

    def separate(self, plural: str, ahead: int) -> None:
        """Give a resource an etcd of its own, whose versions are ahead of the others.

        As on an API server with ``--etcd-servers-overrides``.
        """
        resource = self.kind(plural).resource
        self.server.storage.collection(resource).separate(ahead)

    def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        kind = self.kind("namespaces")
        self.server.objects.create(kind, "", {"metadata": {"name": name}})

    def stored(self, plural: str, namespace: str = "") -> list[JSON]:
        """Return all objects of a resource, or of one namespace, by name."""
        return self.state.stored(plural, namespace)

    def find(self, plural: str, namespace: str, name: str) -> JSON | None:
        """Return an object as it is stored, `None` if there is none."""
        return self.state.find(plural, namespace, name)

    def create(self, plural: str, namespace: str, obj: JSON) -> None:
        """Create an object; the server stores its quantities in canonical form."""
        kind = self.kind(plural)
        if kind.type_name:
            obj, _ = check_object(obj, kind, kind.version)
        self.server.objects.create(kind, namespace, obj)

    def change(
        self,
        plural: str,
        obj: JSON,
        edit: Callable[[JSON], Any],
        subresource: str = "",
    ) -> None:
        """Store an object after `edit` has changed a copy of it.

        An API server drops the empty values that the edit leaves behind.
        """
        changed: JSON = json.loads(json.dumps(obj))
        edit(changed)
        metadata = obj["metadata"]
        kind = self.kind(plural)
        if kind.type_name:
            changed, _ = check_object(changed, kind, kind.version)
        self.server.objects.update(
            kind,
            metadata.get("namespace", ""),
            metadata["name"],
            changed,
            subresource,
        )

    def delete(
        self, plural: str, obj: JSON, grace: int | None = None, policy: str = ""
    ) -> None:
        """Delete an object."""
        body: JSON = {} if grace is None else {"gracePeriodSeconds": grace}
        if policy:
            body["propagationPolicy"] = policy
        metadata = obj["metadata"]
        self.server.objects.delete(
            self.kind(plural),
            metadata.get("namespace", ""),
            metadata["name"],
            Deletion.parse(body, {}),
        )

    def restart_pod(self, pod: JSON) -> None:
        """Let a container crash: its pod is not ready for 4 s."""
        metadata = pod["metadata"]
        self.change("pods", pod, lambda obj: self._set_ready(obj, "False"), "status")

        def recover() -> None:
            current = self.find("pods", metadata["namespace"], metadata["name"])
            if current is not None and current["metadata"]["uid"] == metadata["uid"]:
                self.change(
                    "pods", current, lambda obj: self._set_ready(obj, "True"), "status"
                )

        asyncio.get_running_loop().call_later(4.0, recover)

    def _set_ready(self, pod: JSON, status: str) -> None:
        for each in pod.get("status", {}).get("conditions", []):
            if each["type"] == "Ready":
                each["status"] = status
                each["lastTransitionTime"] = format_time(self.clock.now())

    # Running

    def start(self, observe: Callable[[Manager], Observer]) -> None:
        """Start nodes and managers."""
        nodes = Nodes(
            self.server, self.clock, start_delay=2.0, grace_scale=0.1, details=False
        )
        nodes.register()
        self._start_task(nodes.run())
        self._start_task(self._record_versions())
        for number in range(self.managers_wanted):
            manager = Manager(self, number, observe)
            self.managers.append(manager)
            self._start_task(manager.run())

    def _start_task(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """End everything; a task that still runs then is a defect."""
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                self.defects.append(outcome)

    # Users

    async def use(self, operations: int) -> None:
        """Let all users do this many operations; raises Stuck if one cannot go on."""
        self._create_objects(NAMESPACE)
        self.create_shop()
        first, *others = self.workloads
        using = [asyncio.create_task(each.use(operations)) for each in others]
        try:
            # In this task: a task of its own would begin one turn of the loop later,
            # and each seed would give another run than before.
            await first.use(operations)
            await asyncio.gather(*using)
        finally:
            for task in using:
                task.cancel()
            await asyncio.gather(*using, return_exceptions=True)

    def _create_objects(self, namespace: str) -> None:
        for each in self.workloads:
            each.create_objects(namespace)

    def create_shop(self) -> None:
        """Create the namespace that may be deleted, and its objects."""
        self.create_namespace(DELETABLE_NAMESPACE)
        self._create_objects(DELETABLE_NAMESPACE)

    async def recreate_shop(self) -> None:
        """If the namespace was deleted, wait until it is gone and create it again."""
        found = self.find("namespaces", "", DELETABLE_NAMESPACE)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            return
        await self.until_gone("namespaces", "", DELETABLE_NAMESPACE)
        self.create_shop()

    async def replace(
        self, plural: str, obj: JSON, policy: str, *dependents: str
    ) -> None:
        """Delete, wait, and create, as ``kubectl replace --force`` does.

        With the policy Orphan, the objects of the plurals `dependents` are noted as
        orphaned. They must stay under any fault of lists and watches.
        """
        if policy == "Orphan":
            self._note_orphans(obj, dependents)
        metadata = obj["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        self.delete(plural, obj, policy=policy)
        await self.until_gone(plural, namespace, name)
        again = {"metadata": {"name": name}, "spec": obj["spec"]}
        self.server.objects.create(self.kind(plural), namespace, again)

    def _note_orphans(self, owner: JSON, dependents: Iterable[str]) -> None:
        """Note the dependents that must stay."""
        uid = owner["metadata"]["uid"]
        self.state.orphaned.update(
            (each["metadata"]["uid"], uid)
            for plural in dependents
            for each in self.stored(plural, owner["metadata"]["namespace"])
            if any(
                reference["uid"] == uid
                for reference in each["metadata"].get("ownerReferences", [])
            )
        )

    async def until_gone(self, plural: str, namespace: str, name: str) -> None:
        """Wait until a deleted object is gone; raises Stuck if it stays."""
        for _ in range(_PATIENCE):
            if self.find(plural, namespace, name) is None:
                return
            await asyncio.sleep(_POLL)
        msg = f"{plural} {namespace}/{name} is never gone"
        raise Stuck(msg)

    async def clean_up(self) -> None:
        """Let users undo what keeps the state from becoming final."""
        for each in self.workloads:
            await each.clean_up()

    async def _record_versions(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_VERSION_INTERVAL)
            self.versions.append((loop.time(), self.server.storage.version))
