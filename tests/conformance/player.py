"""Plays a scenario's steps as a user and as the nodes would."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from controller_manager.api.times import format_time
from controller_manager.client.transport import Request, Transport
from controller_manager.clock import Clock
from tests.conformance.normalise import KINDS, Aliases, is_ready, state_of

JSON = dict[str, Any]

PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Event": "/api/v1/namespaces/{}/events",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Namespace": "/api/v1/namespaces/{}",
}
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
QUIET = 0.8
POLL = 0.05
CHECK_TIMEOUT = 60.0


class Player:
    """Plays one scenario in a namespace of its own.

    A checkpoint is taken once nothing has changed for `quiet` seconds; it and
    the nodes look every `poll` seconds. Whatever a scenario waits for may come
    `patience` seconds later than it says. Checkpoints show further `kinds`.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        clock: Clock,
        quiet: float = QUIET,
        poll: float = POLL,
        patience: float = 0.0,
        kinds: Sequence[str] = (),
    ) -> None:
        self._kinds = (*KINDS, *kinds)
        self._patience = patience
        self._quiet = quiet
        self._poll = poll
        self._transport = transport
        self._namespace = namespace
        self._clock = clock
        self._aliases = Aliases()
        self._auto: asyncio.Task[None] | None = None

    async def play(self, steps: list[JSON]) -> list[JSON]:
        """Play all steps; return the checkpoints."""
        checkpoints = []
        await self._call(
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
                ((action, argument),) = (await self._with_uids(step)).items()
                if action == "check":
                    state = await self._checkpoint()
                    checkpoints.append({"check": argument, "state": state})
                elif action == "auto":
                    await self._switch_auto(on=argument)
                else:
                    await getattr(self, f"_{action}")(argument)
                    # Before they may be gone.
                    self._aliases.see(await self._items("ReplicaSet"))
        finally:
            await self._switch_auto(on=False)
        return checkpoints

    async def _call(
        self, method: str, path: str, body: Any = None, content_type: str = ""
    ) -> JSON:
        headers = {"accept": "application/json"}
        encoded = None
        if body is not None:
            encoded = json.dumps(body).encode()
            headers["content-type"] = content_type or "application/json"
        path, _, query = path.partition("?")
        pairs = tuple(
            (name, value)
            for name, _, value in (each.partition("=") for each in query.split("&"))
            if name
        )
        answer = await self._transport.request(
            Request(method, path, query=pairs, headers=headers, body=encoded)
        )
        assert answer.status < 400, f"{method} {path}: {answer.body.decode()}"
        decoded: JSON = json.loads(answer.body)
        return decoded

    def _path(self, kind: str, name: str = "", subresource: str = "") -> str:
        parts = [PATHS[kind].format(self._namespace), name, subresource]
        return "/".join(part for part in parts if part)

    async def _with_uids(self, step: JSON) -> JSON:
        """Put in the uids of objects that a step speaks of."""
        text = json.dumps(step)
        for kind, name in set(re.findall(r"{uid:(\w+)/([\w.-]+)}", text)):
            obj = await self._call("GET", self._path(kind, name))
            text = text.replace(f"{{uid:{kind}/{name}}}", obj["metadata"]["uid"])
        filled: JSON = json.loads(text)
        return filled

    async def _items(self, kind: str) -> list[JSON]:
        if kind == "Namespace":
            found = await self._call("GET", "/api/v1/namespaces")
            return [
                each
                for each in found["items"]
                if each["metadata"]["name"] == self._namespace
            ]
        items: list[JSON] = (await self._call("GET", self._path(kind)))["items"]
        return items

    # Steps of a user

    async def _create(self, obj: JSON) -> None:
        created = await self._call("POST", self._path(obj["kind"]), obj)
        if "status" in obj:
            name = created["metadata"]["name"]
            path = self._path(obj["kind"], name, "status")
            await self._call(
                "PATCH", path, {"status": obj["status"]}, PATCH_TYPES["merge"]
            )

    async def _patch(self, step: JSON) -> None:
        path = self._path(step["kind"], step["name"], step.get("subresource", ""))
        kind = PATCH_TYPES[step.get("type", "strategic")]
        await self._call("PATCH", path, step["patch"], kind)

    async def _delete(self, step: JSON) -> None:
        path = self._path(step["kind"], step["name"])
        await self._call("DELETE", path, step.get("options") or {})

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # Steps of the nodes

    async def _chosen(self, step: JSON) -> list[JSON]:
        """Return the pods that a step is about, oldest first."""
        pods = await self._items("Pod")
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
            and not (step.get("unready") and is_ready(pod))
            and bool(step.get("terminating"))
            == ("deletionTimestamp" in pod["metadata"])
        ]
        return chosen[: step["count"]] if "count" in step else chosen

    async def _ready(self, step: JSON) -> None:
        # The recording waits for the pods that a step names to be there.
        await self._until(bool, step)
        for pod in await self._chosen(step):
            await self._make_ready(pod)

    async def _until(self, condition: Any, step: JSON) -> None:
        for _ in range(200):
            if condition(await self._chosen(step)):
                return
            await asyncio.sleep(self._poll)

    async def _make_ready(self, pod: JSON) -> None:
        stamp = format_time(self._clock.now())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp}
        await self._set_status(pod, {"phase": "Running", "conditions": [ready]})

    async def _set_status(self, pod: JSON, status: JSON) -> None:
        path = self._path("Pod", pod["metadata"]["name"], "status")
        await self._call("PATCH", path, {"status": status}, PATCH_TYPES["strategic"])

    async def _podstatus(self, step: JSON) -> None:
        for pod in await self._chosen(step):
            await self._set_status(pod, step["status"])

    async def _podpatch(self, step: JSON) -> None:
        for pod in await self._chosen(step):
            path = self._path("Pod", pod["metadata"]["name"])
            kind = PATCH_TYPES[step.get("type", "strategic")]
            await self._call("PATCH", path, step["patch"], kind)

    async def _poddelete(self, step: JSON) -> None:
        options = {"gracePeriodSeconds": step["grace"]} if "grace" in step else {}
        for pod in await self._chosen(step):
            await self._call(
                "DELETE", self._path("Pod", pod["metadata"]["name"]), options
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
            obj = await self._call("GET", self._path(step["kind"], step["name"]))
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
            lists = {kind: await self._items(kind) for kind in self._kinds}
            versions = {
                (kind, each["metadata"]["name"]): each["metadata"]["resourceVersion"]
                for kind in ("Deployment", "ReplicaSet", "Pod")
                for each in lists[kind]
            }
            now = asyncio.get_running_loop().time()
            if versions != before:
                before, quiet_since = versions, now
            elif now - quiet_since >= self._quiet:
                return state_of(lists, self._aliases)
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
