"""Plays the steps of a scenario, as a user and as the nodes."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Transport
from controller_manager.clock import Clock
from controller_manager.devcluster.scheme.patches import merge_patch
from tests.conformance.access import MERGE, NOT_FOUND, PATCH_TYPES, Access
from tests.conformance.heartbeats import Heartbeats
from tests.conformance.managers import SwitchedManager
from tests.conformance.normalise import GroupedForm
from tests.conformance.objects import api_version_of, field
from tests.conformance.placeholders import filled, repeated
from tests.conformance.pods import SELECTORS, Pods
from tests.conformance.whole import WholeForm

QUIET: Final = 0.8
POLL: Final = 0.05
CHECK_TIMEOUT: Final = 60.0
_BETWEEN_REQUESTS: Final = 0.01
AT_ONCE: Final = 16
"""So many of the steps in a step ``many`` are played at the same time."""

_OBJECT: Final = frozenset(("kind", "name", "namespace"))
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "patch": _OBJECT | {"patch", "type", "subresource"},
    "delete": _OBJECT | {"options"},
    "etcd": _OBJECT | {"merge"},
    "wait": _OBJECT | {"until", "condition", "timeout"},
    "pods": SELECTORS | {"n", "timeout"},
    "many": frozenset(("from", "to", "steps")),
    "ready": SELECTORS | {"ago", "ip"},
    "finish": SELECTORS | {"phase", "exitCode", "reason", "conditions", "ago"},
    "bind": SELECTORS | {"node"},
    "evict": SELECTORS,
    "podstatus": SELECTORS | {"status"},
    "podpatch": SELECTORS | {"patch"},
    "poddelete": SELECTORS | {"grace"},
}
"""The fields that a step may have; a step with others is refused."""


_METRICS: Final = "devcluster-metrics"
"""The config map with the answers of the metrics APIs of a development cluster."""

_OF_THE_SERVER: Final = (
    "creationTimestamp",
    "managedFields",
    "resourceVersion",
    "uid",
)

_ABSENT: Final = ("code", "reason")
"""The fields of a wait until an object is gone; objects do not have them."""


def _is_ready(status: JSON) -> bool:
    found = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return found.get("Ready") == "True"


class Player:
    """Plays one scenario in a namespace of its own.

    A checkpoint has the recording's form. It is taken when nothing has changed for
    `quiet` seconds; state and nodes are polled every `poll` seconds. An awaited
    state may come `patience` seconds too late. The first step is played
    after `delay` seconds.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        clock: Clock,
        form: GroupedForm | WholeForm,
        manager: SwitchedManager,
        *,
        quiet: float = QUIET,
        poll: float = POLL,
        patience: float = 0.0,
        delay: float = 0.0,
    ) -> None:
        self._form = form
        self._delay = delay
        self._manager = manager
        self._patience = patience
        self._quiet = quiet
        self._poll = poll
        self._namespace = namespace
        self._clock = clock
        self._access = Access(transport, namespace)
        self._pods = Pods(
            self._access,
            clock,
            form.ready,
            poll=poll,
            patience=patience or form.late_pods,
        )
        self._heartbeats = Heartbeats(self._access, clock, max(poll, 0.5))
        self._results: list[tuple[str, Any, Any]] = []
        self._deleted: dict[str, str] = {}
        self._steps: dict[str, Callable[[Any], Awaitable[None]]] = {
            "many": self._many,
            "create": self._create,
            "patch": self._patch,
            "delete": self._delete,
            "etcd": self._change_stored,
            "sleep": asyncio.sleep,
            "second": self._second,
            "wait": self._wait,
            "pods": self._wait_for_pods,
            "check": self._check,
            "restart": self._stop_manager,
            "start": self._start_manager,
            "heartbeat": self._heartbeats.keep,
            "metrics": self._answer_metrics,
            "evict": self._evict,
            "ready": self._pods.ready,
            "finish": self._pods.finish,
            "bind": self._pods.bind,
            "podstatus": self._pods.podstatus,
            "podpatch": self._pods.podpatch,
            "poddelete": self._pods.poddelete,
            "auto": self._pods.auto,
        }

    async def play(self, steps: list[JSON]) -> list[JSON]:
        """Play all steps; return the checkpoints, and the answers to evictions."""
        namespace = {"metadata": {"name": self._namespace}}
        await self._access.call("POST", "/api/v1/namespaces", namespace)
        await asyncio.sleep(self._delay)
        try:
            for step in steps:
                await self._play(step)
        finally:
            await self._pods.auto(None)
            await self._heartbeats.keep([])
        return self.checkpoints()

    def checkpoints(self) -> list[JSON]:
        """Return what `play` returns, of the steps that were played."""
        # Events name the objects that were created and deleted between two checkpoints.
        self._form.learn(self._manager.created())
        return [
            {what: value, "state": self._form.state(lists)}
            if what == "check"
            else {what: value}
            for what, value, lists in self._results
        ]

    async def _play(self, step: JSON) -> None:
        ((action, _),) = step.items()
        if action not in self._steps:
            msg = f"the player does not know the step {action}"
            raise ValueError(msg)
        if action != "many":
            step = await filled(step, self._access, self._clock)
        argument = step[action]
        if action in _FIELDS and (unknown := argument.keys() - _FIELDS[action]):
            msg = f"the player does not know {min(unknown)} of the step {action}"
            raise ValueError(msg)
        await self._steps[action](argument)

    async def _many(self, step: JSON) -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def play(steps: list[JSON]) -> None:
            async with gate:
                for each in steps:
                    await self._play(each)

        await asyncio.gather(*map(play, repeated(step)))

    # Steps of a user

    async def _create(self, obj: JSON) -> None:
        kind = obj["kind"]
        body = {"apiVersion": api_version_of(kind), **obj}
        status, user = body.pop("status", None), body.pop("as", None)
        namespace = obj.get("metadata", {}).get("namespace", "")
        path = self._access.path(kind, namespace=namespace)
        created = await self._access.call("POST", path, body, user=user)
        if status:
            if kind == "Node" and not _is_ready(status):
                # On a real server the manager acts between the two requests: it
                # takes the taint away that admission gives to a new node.
                await asyncio.sleep(_BETWEEN_REQUESTS)
            path = f"{path}/{created['metadata']['name']}/status"
            await self._access.call("PATCH", path, {"status": status}, MERGE)

    async def _patch(self, step: JSON) -> None:
        name = await self._access.full_name(step["kind"], step["name"])
        path = self._access.path(
            step["kind"],
            name,
            step.get("subresource", ""),
            step.get("namespace", ""),
        )
        kind = PATCH_TYPES[step.get("type", "strategic")]
        await self._access.call("PATCH", path, step["patch"], kind)

    async def _delete(self, step: JSON) -> None:
        name = await self._access.full_name(step["kind"], step["name"])
        path = self._access.path(
            step["kind"], name, namespace=step.get("namespace", "")
        )
        answer = await self._access.call("DELETE", path, step.get("options") or {})
        about: JSON = answer.get("details") or answer["metadata"]
        self._deleted[path] = about["uid"]

    async def _change_stored(self, step: JSON) -> None:
        """Change a stored object as an older API server has left it.

        The API server may refuse such a write. So the object is deleted and made anew
        while the manager is stopped; only its uid and its age differ then.
        """
        kind, namespace = step["kind"], step.get("namespace", "")
        name = await self._access.full_name(kind, step["name"])
        path = self._access.path(kind, name, namespace=namespace)
        obj = merge_patch(await self._access.call("GET", path), step["merge"])
        for each in _OF_THE_SERVER:
            obj["metadata"].pop(each, None)
        options = {"propagationPolicy": "Background"}
        await self._access.call("DELETE", path, options)
        await self._access.call("POST", path.rpartition("/")[0], obj)

    async def _answer_metrics(self, answers: JSON) -> None:
        """Let the metrics APIs of a development cluster answer this."""
        body = {"data": {"answers": json.dumps(answers)}}
        collection = self._access.path("ConfigMap")
        path = f"{collection}/{_METRICS}"
        found = await self._access.call("PATCH", path, body, MERGE, expected=NOT_FOUND)
        if found["kind"] != "ConfigMap":
            body = {**body, "metadata": {"name": _METRICS}}
            await self._access.call("POST", collection, body)

    async def _evict(self, step: JSON) -> None:
        for code in await self._pods.evict(step):
            self._results.append(("evict", code, None))

    # Steps about the manager

    async def _stop_manager(self, _: None) -> None:
        await self._manager.stop()
        await asyncio.sleep(0.3)

    async def _start_manager(self, _: None) -> None:
        await self._manager.start()
        # As long as upstream had to start.
        await asyncio.sleep(3)

    # Waiting

    async def _second(self, second: int) -> None:
        minute = timedelta(minutes=1)
        past = timedelta(seconds=self._clock.now().timestamp() % 60)
        left = (timedelta(seconds=second) - past) % minute
        await asyncio.sleep(left.total_seconds())

    async def _wait(self, step: JSON) -> None:
        deadline = self._deadline(step)
        path = self._access.path(
            step["kind"], step["name"], namespace=step.get("namespace", "")
        )
        while True:
            obj = await self._access.call("GET", path, expected=NOT_FOUND)
            if _holds(obj, step) or self._is_replaced(path, obj, step):
                return
            assert asyncio.get_running_loop().time() < deadline, (step, obj)
            await asyncio.sleep(self._poll)

    def _is_replaced(self, path: str, obj: JSON, step: JSON) -> bool:
        """Tell whether what must be gone was made again, between two looks."""
        waits_for_absence = not step["until"].keys().isdisjoint(_ABSENT)
        deleted = self._deleted.get(path)
        uid = obj["metadata"].get("uid")
        return waits_for_absence and None not in (deleted, uid) and deleted != uid

    async def _wait_for_pods(self, step: JSON) -> None:
        """Wait until the step is about exactly `n` pods."""
        deadline = self._deadline(step)
        while len(pods := await self._pods.chosen(step)) != step["n"]:
            assert asyncio.get_running_loop().time() < deadline, (step, pods)
            await asyncio.sleep(self._poll)

    def _deadline(self, step: JSON) -> float:
        patience = step.get("timeout", 30) + self._patience
        return float(asyncio.get_running_loop().time() + patience)

    async def _check(self, title: str) -> None:
        """Wait until nothing has changed for a while; keep the state."""
        await self._settle()
        # Events are not waited for.
        await asyncio.sleep(0.3)
        lists = {kind: await self._access.items(kind) for kind in self._form.kinds}
        if self._form.cluster_events:
            lists["Event"] += await self._access.cluster_events()
        for wanted in self._form.others:
            lists.setdefault(wanted.title, [])
            lists[wanted.title] += await self._access.others(wanted)
        shown = (each for kind, each in lists.items() if kind != "Event")
        self._form.learn([obj for objects in shown for obj in objects])
        self._results.append(("check", title, lists))

    async def _settle(self) -> None:
        now = asyncio.get_running_loop().time
        deadline = now() + CHECK_TIMEOUT + self._patience
        before: Any = None
        quiet_since = 0.0
        while True:
            versions = {
                each["metadata"]["uid"]: each["metadata"]["resourceVersion"]
                for each in await self._watched()
            }
            if versions != before:
                before, quiet_since = versions, now()
            elif now() - quiet_since >= self._quiet:
                return
            assert now() < deadline, "the cluster does not come to rest"
            await asyncio.sleep(self._poll)

    async def _watched(self) -> list[JSON]:
        """Return the objects that must not change before a checkpoint is taken."""
        found = [await self._access.items(kind) for kind in self._form.settled]
        found += [await self._access.others(each) for each in self._form.others]
        return [each for objects in found for each in objects]


def _holds(obj: JSON, step: JSON) -> bool:
    until, condition = step["until"], step.get("condition")
    if any(field(obj, path) != wanted for path, wanted in until.items()):
        return False
    if condition is None:
        return True
    conditions = field(obj, "status.conditions") or []
    return any(condition.items() <= each.items() for each in conditions)
