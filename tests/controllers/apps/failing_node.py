"""A node whose pods fail as soon as they exist."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.client.rest.errors import NotFound
from controller_manager.controllers.apps.daemonset.nodes import target_of
from tests.clusters import EPOCH, Cluster
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import replica_set_json, replication_controller_json
from tests.controllers.hands import Hands
from tests.controllers.user import User


class Node:
    """Lets the pods that it is asked to fail fail, and makes all others ready."""

    def __init__(self, cluster: Cluster) -> None:
        self.user = User(cluster)
        self.fails: Callable[[Pod], bool] = lambda _: True
        self.reason = "OutOfcpu"
        self.deletes = False
        """True if somebody deletes each failed pod at once."""

        self.created: list[tuple[float, Pod]] = []
        """Each pod that was seen, and the seconds until then."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def run(self) -> None:
        known: set[str] = set()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            for each in await self.user.pods():
                if each.metadata.uid not in known:
                    known.add(each.metadata.uid)
                    self.created.append((int(loop.time() - began), each))
                    with suppress(NotFound):
                        await self._see(each)
            await asyncio.sleep(0.1)

    async def _see(self, pod: Pod) -> None:
        name = pod.metadata.name
        if not self.fails(pod):
            await self.user.make_ready(name)
            return
        await self.user.report(name, phase="Failed", reason=self.reason)
        if self.deletes:
            options = DeleteOptions(grace_period_seconds=0)
            await self.user.client.delete(PODS, "default", name, options)

    def of(self, owner: str) -> list[float]:
        """Return the times at which pods of an owner were created."""
        return self._times(lambda pod: pod.metadata.name.rpartition("-")[0], owner)

    def of_pod(self, pod: str) -> list[float]:
        """Return the times at which pods of this name were created."""
        return self._times(lambda each: each.metadata.name, pod)

    def on(self, node: str) -> list[float]:
        """Return the times at which pods for this node were created."""
        return self._times(target_of, node)

    def _times(self, key: Callable[[Pod], str], wanted: str) -> list[float]:
        return [seconds for seconds, pod in self.created if key(pod) == wanted]


class Ticking:
    """A clock that a test moves; its day stands still."""

    seconds = 0.0

    def now(self) -> datetime:
        return EPOCH

    def monotonic(self) -> float:
        return self.seconds


class Failing(Hands):
    """A cluster whose nodes let pods fail as soon as they exist."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._node = Node(self)
        self._works: asyncio.Task[None] | None = None

    def start(
        self,
        *,
        fails: bool = True,
        deletes: bool = False,
        only: str = "",
        only_labelled: bool = False,
    ) -> None:
        """Start the nodes; all pods fail, `only` one, or those with a label "bad"."""
        self._node.deletes = deletes
        self._node.fails = lambda _: fails
        if only:
            self._node.fails = lambda pod: pod.metadata.name == only
        if only_labelled:
            bad = "yes"
            self._node.fails = lambda it: (it.metadata.labels or {}).get("bad") == bad
        self._works = asyncio.create_task(self._node.run())

    def heal(self) -> None:
        self._node.fails = lambda _: False

    def break_all(self) -> None:
        self._node.fails = lambda _: True

    async def end_nodes(self) -> None:
        await self.close()

    async def close(self) -> None:
        if self._works is not None:
            self._works.cancel()
            await asyncio.gather(self._works, return_exceptions=True)

    def make(self, resource: str, replicas: str) -> None:
        replica_set = resource == "replicasets"
        body = replica_set_json if replica_set else replication_controller_json
        self.put(resource, "web", spec=body("web", int(replicas))["spec"])

    def make_set(self, replicas: str, **spec: Any) -> None:
        body = stateful_set_json(replicas=int(replicas), **spec)
        self.put("statefulsets", "web", spec=body["spec"])

    def edit_set(self, **spec: Any) -> None:
        self.edit("statefulsets", "web", spec=spec)

    def fail_pod(self, name: str) -> None:
        self.edit(PODS, name, status={"phase": "Failed"})

    def _running(self) -> str:
        phases = self.phases().items()
        (name,) = [name for name, phase in phases if phase != "Failed"]
        return name

    def fail_running(self) -> None:
        self.fail_pod(self._running())

    def delete_running(self) -> None:
        self.remove(PODS, self._running())

    def forget_made(self) -> None:
        self._node.created.clear()

    def phases(self) -> dict[str, str]:
        pods = self.all(PODS)
        return {each["metadata"]["name"]: each["status"]["phase"] for each in pods}

    def phases_if(self, policy: str) -> dict[str, str] | None:
        return self.phases() if policy == "OrderedReady" else None

    def pending(self) -> int:
        return list(self.phases().values()).count("Pending")

    def made_by(self, owner: str) -> list[float]:
        return self._node.of(owner)

    def made_of(self, pod: str) -> list[float]:
        return self._node.of_pod(pod)

    def made_late(self, start: str) -> list[float]:
        """Return the times of the pods from this place on."""
        return self.made_by("web")[int(start) :]

    def made_at(self, seconds: str) -> int:
        return self.made_by("web").count(int(seconds))

    def was_told(self, reason: str) -> bool:
        return any(f" {reason} " in each for each in self.told())
