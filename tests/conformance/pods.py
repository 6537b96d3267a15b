"""The steps of a scenario that act on pods, in the place of scheduler and kubelet."""

import asyncio
from collections.abc import Sequence

from controller_manager.api.json_objects import JSON
from controller_manager.clock import Clock
from tests.conformance import kubelet
from tests.conformance.access import GONE_OR_CHANGED, MERGE, Access
from tests.conformance.selection import select, wanted_node

Auto = str | bool | dict[str, float] | None
"""Make pods ready without a kubelet."""

_REFUSED = (404, 429, 500)
"""The answers to an eviction: there is no such pod, its budget forbids it, it has
several budgets."""


class Pods:
    """The pods of a scenario.

    A pod that is made ready gets these `conditions`. The pods that a step is about may
    come up to `patience` seconds later than the step.
    """

    def __init__(
        self,
        access: Access,
        clock: Clock,
        conditions: Sequence[str],
        *,
        poll: float,
        patience: float,
    ) -> None:
        self._access = access
        self._clock = clock
        self._conditions = conditions
        self._poll = poll
        self._patience = patience
        self._auto: asyncio.Task[None] | None = None

    async def chosen(self, step: JSON) -> list[JSON]:
        """Return the pods that a step is about now, oldest first."""
        return select(await self._access.items("Pod", step.get("selector", "")), step)

    async def expected(self, step: JSON) -> list[JSON]:
        """Return the pods that a step is about, as soon as there are any."""
        now = asyncio.get_running_loop().time
        deadline = now() + self._patience
        while True:
            pods = await self.chosen(step)
            if len(pods) >= step.get("count", 1) or now() >= deadline:
                return pods
            await asyncio.sleep(self._poll)

    async def ready(self, step: JSON) -> None:
        """Let the pods be ready, since `ago` seconds.

        `N` in their `ip` stands for 1, 2 …
        """
        pods = await self.expected(step)
        for number, pod in enumerate(pods, 1):
            ip = step.get("ip", "").replace("N", str(number))
            await self._make_ready(pod, step.get("ago", 0), ip)

    async def finish(self, step: JSON) -> None:
        """Let the pods end."""
        for pod in await self.expected(step):
            await self._set_status(pod, kubelet.ended(pod, step, self._clock.now()))

    async def podstatus(self, step: JSON) -> None:
        """Change the status of the pods."""
        for pod in await self.expected(step):
            await self._set_status(pod, step["status"])

    async def podpatch(self, step: JSON) -> None:
        """Change the pods."""
        for pod in await self.expected(step):
            path = self._access.path("Pod", pod["metadata"]["name"])
            await self._access.call("PATCH", path, step["patch"], MERGE)

    async def poddelete(self, step: JSON) -> None:
        """Delete the pods; those bound to a node stay until `grace` is 0."""
        options = {"gracePeriodSeconds": step["grace"]} if "grace" in step else {}
        for pod in await self.expected(step):
            path = self._access.path("Pod", pod["metadata"]["name"])
            await self._access.call("DELETE", path, options)

    async def bind(self, step: JSON) -> None:
        """Bind the pods to the step's node, or each to the node that it asks for."""
        for pod in await self.expected(step):
            await self._bind(pod, step.get("node"))

    async def evict(self, step: JSON) -> list[int]:
        return [await self._evict(each) for each in await self.expected(step)]

    async def auto(self, how: Auto) -> None:
        """Let pending pods be bound and become ready from now on, or no longer.

        With "finish", let them succeed after that; with `ago`, they have been ready
        for so many seconds.
        """
        if self._auto is not None:
            self._auto.cancel()
            await asyncio.gather(self._auto, return_exceptions=True)
        self._auto = asyncio.create_task(self._keep_ready(how)) if how else None

    async def _keep_ready(self, how: Auto) -> None:
        ago = how.get("ago", 0) if isinstance(how, dict) else 0
        while True:
            for pod in await self.chosen({}):
                phase = pod.get("status", {}).get("phase")
                if pod["spec"].get("schedulingGates"):
                    continue
                if phase == "Pending":
                    await self._bind(pod, None)
                    await self._make_ready(pod, ago)
                elif how == "finish" and phase == "Running":
                    ended = kubelet.ended(pod, {}, self._clock.now())
                    await self._set_status(pod, ended)
            await asyncio.sleep(self._poll)

    async def _make_ready(self, pod: JSON, ago: float, ip: str = "") -> None:
        status = kubelet.running(self._clock.now(), self._conditions, ago, ip)
        await self._set_status(pod, status)

    async def _set_status(self, pod: JSON, status: JSON) -> None:
        path = self._access.path("Pod", pod["metadata"]["name"], "status")
        body = {"status": status}
        await self._access.call("PATCH", path, body, MERGE, expected=GONE_OR_CHANGED)

    async def _bind(self, pod: JSON, node: str | None) -> None:
        node = node or wanted_node(pod)
        if node is None or pod["spec"].get("nodeName"):
            return
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        path = self._access.path("Pod", name, "binding")
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        await self._access.call("POST", path, binding, expected=GONE_OR_CHANGED)

    async def _evict(self, pod: JSON) -> int:
        name = pod["metadata"]["name"]
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name},
        }
        path = self._access.path("Pod", name, "eviction")
        answer = await self._access.call("POST", path, eviction, expected=_REFUSED)
        return int(answer["code"]) if answer.get("status") == "Failure" else 201
