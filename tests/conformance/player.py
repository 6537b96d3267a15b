"""Plays the steps of a scenario, as a user and as the nodes."""

import asyncio
import json
import re
from datetime import timedelta
from typing import Any, Protocol

from controller_manager.api.times import format_time
from controller_manager.client.transport import Transport
from controller_manager.clock import Clock
from tests.conformance import kubelet
from tests.conformance.access import PATCH_TYPES, Access
from tests.conformance.heartbeats import Heartbeats
from tests.conformance.normalise import is_ready

JSON = dict[str, Any]

QUIET = 0.8
POLL = 0.05
CHECK_TIMEOUT = 60.0


_UNSUPPORTED = {"phase_is", "index", "on", "isready"}
"""Selectors of pods in a step that the player does not support."""


class Form(Protocol):
    """The form of a recording: the kinds and fields that its checkpoints show."""

    kinds: tuple[str, ...]
    """The kinds that checkpoints show."""

    settled: tuple[str, ...]
    """The kinds that must not change for a while before a checkpoint is taken."""

    @property
    def ready(self) -> tuple[str, ...]:
        """Conditions that a pod gets when it becomes ready."""

    def add_aliases(self, objects: list[JSON]) -> None:
        """Give the generated names and uids in objects their aliases."""

    def state(self, lists: dict[str, list[JSON]]) -> JSON:
        """Return a checkpoint's state from lists of objects by kind."""


class Player:
    """Plays one scenario in a namespace of its own.

    A checkpoint has the recording's form. It is taken when nothing has changed for
    `quiet` seconds; state and nodes are polled every `poll` seconds. A condition that
    a scenario waits for may come `patience` seconds later than it says.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        clock: Clock,
        form: Form,
        quiet: float = QUIET,
        poll: float = POLL,
        patience: float = 0.0,
    ) -> None:
        self._form = form
        self._patience = patience
        self._quiet = quiet
        self._poll = poll
        self._access = Access(transport, namespace)
        self._namespace = namespace
        self._clock = clock
        self._auto: asyncio.Task[None] | None = None
        self._heartbeats = Heartbeats(self._access, clock, max(poll, 0.5))

    async def play(self, steps: list[JSON]) -> list[JSON]:
        """Play all steps; return the checkpoints."""
        checkpoints = []
        await self._access.call(
            "POST",
            "/api/v1/namespaces",
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": self._namespace},
            },
        )
        try:
            for step in steps:
                ((action, argument),) = (await self._filled(step)).items()
                if action == "check":
                    state = await self._checkpoint()
                    checkpoints.append({"check": argument, "state": state})
                elif action == "auto":
                    await self._switch_auto(on=argument)
                else:
                    await self._carry_out(action, argument)
                    # Before the pods may be deleted.
                    self._form.add_aliases(await self._access.items("ReplicaSet"))
        finally:
            await self._switch_auto(on=False)
            await self._heartbeats.keep([])
        return checkpoints

    async def _carry_out(self, action: str, argument: Any) -> None:
        carry_out = getattr(self, f"_{action}", None)
        if carry_out is None:
            msg = f"the player does not know the step {action}"
            raise ValueError(msg)
        await carry_out(argument)

    async def _filled(self, step: JSON) -> JSON:
        """Replace the placeholders of uids and times in a step."""
        text = json.dumps(step)
        for kind, name in set(re.findall(r"{uid:(\w+)/([\w.-]+)}", text)):
            obj = await self._access.call("GET", self._access.path(kind, name))
            text = text.replace(f"{{uid:{kind}/{name}}}", obj["metadata"]["uid"])
        for seconds in set(re.findall(r"{now:(-?\d+)}", text)):
            time = self._clock.now() + timedelta(seconds=int(seconds))
            text = text.replace(f"{{now:{seconds}}}", format_time(time))
        filled: JSON = json.loads(text)
        return filled

    # Steps of a user

    async def _create(self, obj: JSON) -> None:
        created = await self._access.call("POST", self._access.path(obj["kind"]), obj)
        if "status" in obj:
            name = created["metadata"]["name"]
            path = self._access.path(obj["kind"], name, "status")
            await self._access.call(
                "PATCH", path, {"status": obj["status"]}, PATCH_TYPES["merge"]
            )

    async def _patch(self, step: JSON) -> None:
        path = self._access.path(
            step["kind"], step["name"], step.get("subresource", "")
        )
        kind = PATCH_TYPES[step.get("type", "strategic")]
        await self._access.call("PATCH", path, step["patch"], kind)

    async def _delete(self, step: JSON) -> None:
        path = self._access.path(step["kind"], step["name"])
        await self._access.call("DELETE", path, step.get("options") or {})

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # Steps of the nodes

    async def _chosen(self, step: JSON) -> list[JSON]:
        """Return the pods that a step selects, oldest first."""
        if unknown := step.keys() & _UNSUPPORTED:
            msg = f"the player cannot choose pods by {', '.join(sorted(unknown))}"
            raise ValueError(msg)
        pods = await self._access.items("Pod")
        pods.sort(
            key=lambda pod: (
                pod["metadata"]["creationTimestamp"],
                pod["metadata"]["name"],
            )
        )
        wanted = dict(
            each.split("=") for each in step.get("selector", "").split(",") if each
        )
        chosen = [
            pod
            for pod in pods
            if wanted.items() <= pod["metadata"].get("labels", {}).items()
            and ("image" not in step or _image(pod) == step["image"])
            and step.get("name") in (None, pod["metadata"]["name"])
            and not (step.get("unready") and is_ready(pod))
            and bool(step.get("terminating"))
            == ("deletionTimestamp" in pod["metadata"])
        ]
        return chosen[: step["count"]] if "count" in step else chosen

    async def _ready(self, step: JSON) -> None:
        # The recording waits until the pods that a step names exist.
        await self._until(bool, step)
        for pod in await self._chosen(step):
            await self._make_ready(pod)

    async def _until(self, condition: Any, step: JSON) -> None:
        for _ in range(200):
            if condition(await self._chosen(step)):
                return
            await asyncio.sleep(self._poll)

    async def _make_ready(self, pod: JSON) -> None:
        status = kubelet.running(self._clock.now(), self._form.ready)
        await self._set_status(pod, status)

    async def _set_status(self, pod: JSON, status: JSON) -> None:
        path = self._access.path("Pod", pod["metadata"]["name"], "status")
        await self._access.call(
            "PATCH", path, {"status": status}, PATCH_TYPES["strategic"]
        )

    async def _podstatus(self, step: JSON) -> None:
        for pod in await self._chosen(step):
            await self._set_status(pod, step["status"])

    async def _heartbeat(self, nodes: list[str]) -> None:
        await self._heartbeats.keep(nodes)

    async def _finish(self, step: JSON) -> None:
        for pod in await self._chosen(step):
            status = kubelet.ended(pod, step, self._clock.now())
            await self._set_status(pod, status)

    async def _podpatch(self, step: JSON) -> None:
        for pod in await self._chosen(step):
            path = self._access.path("Pod", pod["metadata"]["name"])
            kind = PATCH_TYPES[step.get("type", "strategic")]
            await self._access.call("PATCH", path, step["patch"], kind)

    async def _poddelete(self, step: JSON) -> None:
        options = {"gracePeriodSeconds": step["grace"]} if "grace" in step else {}
        for pod in await self._chosen(step):
            await self._access.call(
                "DELETE", self._access.path("Pod", pod["metadata"]["name"]), options
            )

    async def _switch_auto(self, *, on: bool) -> None:
        if self._auto is not None:
            self._auto.cancel()
            await asyncio.gather(self._auto, return_exceptions=True)
        self._auto = asyncio.create_task(self._make_all_ready()) if on else None

    async def _make_all_ready(self) -> None:
        while True:
            for pod in await self._chosen({"unready": True}):
                if pod.get("status", {}).get("phase") == "Pending":
                    await self._make_ready(pod)
            await asyncio.sleep(self._poll)

    # Waiting

    async def _wait(self, step: JSON) -> None:
        deadline = asyncio.get_running_loop().time() + step.get("timeout", 30)
        deadline += self._patience
        while True:
            path = self._access.path(step["kind"], step["name"])
            missing_ok = "reason" in step["until"]
            obj = await self._access.call("GET", path, missing_ok=missing_ok)
            if _holds(obj, step):
                return
            assert asyncio.get_running_loop().time() < deadline, (step, obj)
            await asyncio.sleep(self._poll)

    async def _checkpoint(self) -> JSON:
        """Wait until nothing has changed for a while; return the state."""
        deadline = asyncio.get_running_loop().time() + CHECK_TIMEOUT + self._patience
        before: Any = None
        quiet_since = 0.0
        while True:
            lists = {kind: await self._access.items(kind) for kind in self._form.kinds}
            versions = {
                (kind, each["metadata"]["name"]): each["metadata"]["resourceVersion"]
                for kind in self._form.settled
                for each in lists[kind]
            }
            now = asyncio.get_running_loop().time()
            if versions != before:
                before, quiet_since = versions, now
            elif now - quiet_since >= self._quiet:
                return self._form.state(lists)
            assert now < deadline, "the cluster does not come to rest"
            await asyncio.sleep(self._poll)


def _image(pod: JSON) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def _holds(obj: JSON, step: JSON) -> bool:
    for path, wanted in step["until"].items():
        value: Any = obj
        for part in path.split("."):
            value = value.get(part, 0) if isinstance(value, dict) else 0
        if value != wanted:
            return False
    wanted = step.get("condition")
    if wanted is None:
        return True
    conditions = obj.get("status", {}).get("conditions", [])
    return any(wanted.items() <= each.items() for each in conditions)
