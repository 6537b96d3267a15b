"""The steps of a scenario that act on pods, in the place of scheduler and kubelet."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.clock import Clock
from tests.conformance.access import GONE_OR_CHANGED, MERGE, Access
from tests.conformance.objects import field, is_ready

SELECTORS: Final = frozenset(
    (
        "selector",
        "name",
        "image",
        "phase_is",
        "index",
        "on",
        "isready",
        "unready",
        "terminating",
        "count",
    )
)
"""The fields of a step that select pods; `selector` selects them by their labels."""

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_NODE_TERMS: Final = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms"
)


def wanted_node(pod: JSON) -> str | None:
    """Return the node that a pod's node affinity asks for by name."""
    for term in field(pod, _NODE_TERMS) or []:
        for each in term.get("matchFields") or []:
            if each["key"] == "metadata.name":
                return str(each["values"][0])
    return None


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
            await self._set_status(pod, ended_status(pod, step, self._clock.now()))

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
                    ended = ended_status(pod, {}, self._clock.now())
                    await self._set_status(pod, ended)
            await asyncio.sleep(self._poll)

    async def _make_ready(self, pod: JSON, ago: float, ip: str = "") -> None:
        status = running_status(self._clock.now(), self._conditions, ago, ip)
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


def select(pods: list[JSON], step: JSON) -> list[JSON]:
    """Return the pods that a step is about, oldest first, at most `count`.

    Pods that are being deleted are selected only by a step that says `terminating`.
    """
    chosen = [each for each in pods if _fits(each, step)]
    chosen.sort(key=_age)
    return chosen[: step.get("count", len(chosen))]


def _fits(pod: JSON, step: JSON) -> bool:
    metadata, spec = pod["metadata"], pod["spec"]
    pairs = (
        ("name", metadata["name"]),
        ("image", spec["containers"][0]["image"]),
        ("phase_is", pod.get("status", {}).get("phase")),
    )
    return (
        bool(step.get("terminating")) == ("deletionTimestamp" in metadata)
        and all(step.get(name) in (None, value) for name, value in pairs)
        and ("index" not in step or str(step["index"]) == _index(pod))
        and ("on" not in step or step["on"] in (spec.get("nodeName"), wanted_node(pod)))
        and not (step.get("isready") and not is_ready(pod))
        and not (step.get("unready") and is_ready(pod))
    )


def _index(pod: JSON) -> str | None:
    found: str | None = pod["metadata"].get("annotations", {}).get(_INDEX)
    return found


def _age(pod: JSON) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def running_status(
    now: datetime, conditions: Sequence[str], ago: float = 0, ip: str = ""
) -> JSON:
    """Return the status of a pod that has been ready for `ago` seconds, with its IP."""
    stamp = format_time(now - timedelta(seconds=ago))
    addresses = {"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}
    return {
        "phase": "Running",
        "startTime": stamp,
        "conditions": [
            {"type": each, "status": "True", "lastTransitionTime": stamp}
            for each in conditions
        ],
        **addresses,
    }


def ended_status(pod: JSON, step: JSON, now: datetime) -> JSON:
    """Return the status of a pod whose containers have ended, as a step describes.

    `phase` is Succeeded by default; the step may also give the exit code and reason of
    the first container, and `ago`: how many seconds ago it ended.
    """
    phase = step.get("phase", "Succeeded")
    well = phase == "Succeeded"
    at = now - timedelta(seconds=step.get("ago", 0))
    terminated = {
        "exitCode": step.get("exitCode", 0 if well else 1),
        "reason": step.get("reason", "Completed" if well else "Error"),
        "startedAt": format_time(at - timedelta(seconds=1)),
        "finishedAt": format_time(at),
    }
    conditions = [
        {
            "type": each,
            "status": "False",
            "reason": "PodCompleted" if well else "PodFailed",
            "lastTransitionTime": format_time(at),
        }
        for each in ("Ready", "ContainersReady")
    ]
    return {
        "phase": phase,
        "conditions": conditions + step.get("conditions", []),
        "containerStatuses": [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
            for each in pod["spec"]["containers"]
        ],
    }
