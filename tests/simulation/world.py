"""The cluster: its server, its nodes, and its users."""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from controller_manager.api.times import format_time
from controller_manager.clock import LoopClock
from controller_manager.devcluster.apiserver import APIServer
from controller_manager.devcluster.nodes.nodes import Nodes
from controller_manager.devcluster.server.authentication import User
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.kind import Kind
from controller_manager.options.config import (
    ClientConfig,
    Config,
    GenericConfig,
    LeaderElectionConfig,
    PodGCConfig,
    RateLimit,
    ServingConfig,
)
from tests.clusters import EPOCH, TOKEN
from tests.controllers.builders import deployment_json
from tests.simulation.faults import Faults
from tests.simulation.managers import Manager
from tests.simulation.transport import Observer

JSON = dict[str, Any]

NAMESPACE: Final = "default"
DOOMED: Final = "shop"
"""A namespace that may be deleted with all that is in it."""

NAMES: Final = ("api", "web", "worker")
_GROUPS: Final = {"deployments": "apps", "replicasets": "apps"}
_NOTING: Final = 5.0
_POLL: Final = 1.0
_PATIENCE: Final = 3600
"""Seconds that a user waits for a deletion."""

_KEPT_PODS: Final = 5
"""Ended pods that are left, so that others are collected."""


class Stuck(Exception):  # noqa: N818 - what a user would say
    """Something that was deleted stays."""


@dataclass
class World:
    """Everything that one seed makes."""

    seed: int
    faults: Faults
    managers_wanted: int = 1
    clock: LoopClock = field(init=False)
    server: APIServer = field(init=False)
    managers: list[Manager] = field(default_factory=list)
    defects: list[BaseException] = field(default_factory=list)
    config: Config = field(init=False)
    versions: list[tuple[float, int]] = field(default_factory=list)
    """Which resource version the server had come to, and when."""

    spared: set[tuple[str, str]] = field(default_factory=set)
    """uids of what a user wanted to keep, and of its owner that was deleted."""

    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    def __post_init__(self) -> None:
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
            pod_gc=PodGCConfig(_KEPT_PODS),
        )
        for name in (NAMESPACE, "kube-system"):
            self.create_namespace(name)

    # The server, as anybody sees it

    def kind(self, plural: str) -> Kind:
        kind = self.server.catalogue.find(_GROUPS.get(plural, ""), "v1", plural)
        assert kind is not None
        return kind

    def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        kind = self.kind("namespaces")
        self.server.objects.create(kind, "", {"metadata": {"name": name}})

    def stored(self, plural: str, namespace: str = "") -> list[JSON]:
        """Return all objects of a resource, or of one namespace, by name."""
        collection = self.server.storage.collection(self.kind(plural).resource)
        found = [
            each.obj
            for each in collection
            if namespace in ("", each.obj["metadata"]["namespace"])
        ]
        return sorted(found, key=path_of)

    def find(self, plural: str, namespace: str, name: str) -> JSON | None:
        """Return an object as it is stored, `None` if there is none."""
        collection = self.server.storage.collection(self.kind(plural).resource)
        stored = collection.get((namespace, name))
        return stored.obj if stored is not None else None

    def change(
        self,
        plural: str,
        obj: JSON,
        edit: Callable[[JSON], Any],
        subresource: str = "",
    ) -> None:
        """Store an object after `edit` has changed a copy of it."""
        changed: JSON = json.loads(json.dumps(obj))
        edit(changed)
        metadata = obj["metadata"]
        self.server.objects.update(
            self.kind(plural),
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
        """Have a container crash: its pod is not ready, and is so again in 4 s."""
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
        nodes = Nodes(self.server, self.clock, start_delay=2.0, grace_scale=0.1)
        nodes.register()
        self._go(nodes.run())
        self._go(self._note_versions())
        for number in range(self.managers_wanted):
            manager = Manager(self, number, observe)
            self.managers.append(manager)
            self._go(manager.run())

    def _go(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def stop(self) -> None:
        """End everything; whatever still runs then is a defect."""
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
            self._create(NAMESPACE, name, rng)
        self.open_shop()
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, change = rng.choice(NAMES), rng.choice(_CHANGES)
            await self._edit(name, change, random.Random(rng.random()))

    def open_shop(self) -> None:
        """Make the namespace that may be deleted, and what is in it."""
        self.create_namespace(DOOMED)
        self._create(DOOMED, "web", random.Random(f"shop {self.seed}"))

    async def reopen_shop(self) -> None:
        """Wait until the namespace is gone, and make it again, if it was deleted."""
        found = self.find("namespaces", "", DOOMED)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            return
        await self._until_gone("namespaces", "", DOOMED)
        self.open_shop()

    async def _until_gone(self, plural: str, namespace: str, name: str) -> None:
        """Wait for the end of a deletion; raises Stuck if it does not come."""
        for _ in range(_PATIENCE):
            if self.find(plural, namespace, name) is None:
                return
            await asyncio.sleep(_POLL)
        msg = f"{plural} {namespace}/{name} is never gone"
        raise Stuck(msg)

    def _create(self, namespace: str, name: str, rng: random.Random) -> None:
        spec: JSON = {"strategy": {"type": "Recreate"}}
        if rng.random() < 0.8:
            spec["strategy"] = _rolling(rng)
        spec["minReadySeconds"] = rng.choice([0, 0, 3])
        spec["revisionHistoryLimit"] = rng.choice([0, 2, 10])
        deployment = deployment_json(name, rng.randrange(1, 7), **spec)
        deployment["metadata"]["namespace"] = namespace
        kind = self.kind("deployments")
        self.server.objects.create(kind, namespace, deployment)

    async def _edit(self, name: str, change: str, rng: random.Random) -> None:
        obj = self.find("deployments", NAMESPACE, name)
        assert obj is not None
        if change in _REPLACEMENTS:
            await self._replace(obj, _REPLACEMENTS[change])
            return
        self.change("deployments", obj, lambda obj: _EDITS[change](obj["spec"], rng))

    async def _replace(self, obj: JSON, policy: str) -> None:
        """Delete, wait, and create, as ``kubectl replace --force`` does."""
        metadata = obj["metadata"]
        if policy == "Orphan":
            self.spared |= {
                (each["metadata"]["uid"], metadata["uid"])
                for each in self.stored("replicasets", NAMESPACE)
                if any(
                    owner["uid"] == metadata["uid"]
                    for owner in each["metadata"].get("ownerReferences", [])
                )
            }
        self.delete("deployments", obj, policy=policy)
        await self._until_gone("deployments", NAMESPACE, metadata["name"])
        again = {"metadata": {"name": metadata["name"]}, "spec": obj["spec"]}
        self.server.objects.create(self.kind("deployments"), NAMESPACE, again)

    async def resume_all(self) -> None:
        """Let every paused deployment go on, so that there is an end."""
        for deployment in self.stored("deployments", NAMESPACE):
            if deployment["spec"].get("paused"):
                name = deployment["metadata"]["name"]
                await self._edit(name, "pause", random.Random(0))

    async def _note_versions(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_NOTING)
            self.versions.append((loop.time(), self.server.storage.version))


def path_of(obj: JSON) -> str:
    """Return namespace and name."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _rolling(rng: random.Random) -> JSON:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxSurge": rng.choice([0, 1, "25%", 3]),
            "maxUnavailable": rng.choice([1, "25%", 2]),
        },
    }


def _set_image(spec: JSON, rng: random.Random) -> None:
    spec["template"]["spec"]["containers"][0]["image"] = f"app:v{rng.randrange(5)}"


def _scale(spec: JSON, rng: random.Random) -> None:
    spec["replicas"] = rng.randrange(8)


def _pause(spec: JSON, _: random.Random) -> None:
    spec["paused"] = not spec.get("paused", False)


def _restart(spec: JSON, rng: random.Random) -> None:
    annotations = spec["template"]["metadata"].setdefault("annotations", {})
    annotations["restartedAt"] = f"{rng.random():.6f}"


def _change_bounds(spec: JSON, rng: random.Random) -> None:
    spec["strategy"] = _rolling(rng)


_EDITS: Final[dict[str, Callable[[JSON, random.Random], None]]] = {
    "image": _set_image,
    "scale": _scale,
    "pause": _pause,
    "restart": _restart,
    "bounds": _change_bounds,
}
_REPLACEMENTS: Final = {
    "replace": "Background",
    "replace, waiting for dependents": "Foreground",
    "replace, keep dependents": "Orphan",
}
"""Ways to delete before creating again (``--cascade``)."""

_CHANGES: Final = (*_EDITS, "image", "scale", "image", "scale", *_REPLACEMENTS)
