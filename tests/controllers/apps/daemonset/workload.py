"""The actions of users on daemon sets and nodes: change, label, taint, replace."""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import daemon_set_json
from tests.simulation.workload import READY_AFTER, Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


NAMESPACE: Final = "default"
_NAMES: Final = ("agent", "logs")
_POOL: Final = "example.com/pool"
_TAINT: Final = {"key": "example.com/reserved", "effect": "NoSchedule"}

_DEPENDENTS: Final = ("pods", "controllerrevisions")


class DaemonSetUsers(Workload):
    """Users of two daemon sets in one namespace; in others there is one.

    One of the two selects nodes by a label that users change.
    """

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of daemon sets {world.seed}")

    def create_objects(self, namespace: str) -> None:
        names = _NAMES if namespace == NAMESPACE else _NAMES[:1]
        for name in names:
            rng = random.Random(f"{namespace} {name} {self.world.seed}")
            self._create(namespace, name, rng)

    def _create(self, namespace: str, name: str, rng: random.Random) -> None:
        spec: JSON = {
            "updateStrategy": _strategy(rng),
            **rng.choice(READY_AFTER),
            "revisionHistoryLimit": rng.choice([0, 2, 10]),
        }
        obj = daemon_set_json(name, **spec)
        obj["metadata"]["namespace"] = namespace
        if name == "logs":
            obj["spec"]["template"]["spec"]["nodeSelector"] = {_POOL: "yes"}
        kind = self.world.kind("daemonsets")
        self.world.server.objects.create(kind, namespace, obj)

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, change = rng.choice(_NAMES), rng.choice(_CHANGES)
            await self._do(name, change, random.Random(rng.random()))

    async def _do(self, name: str, change: str, rng: random.Random) -> None:
        if change in _NODES:
            node = rng.choice(self.world.stored("nodes"))
            self.world.change("nodes", node, _NODES[change])
            return
        obj = self.world.find("daemonsets", NAMESPACE, name)
        assert obj is not None
        if change in _REPLACEMENTS:
            policy = _REPLACEMENTS[change]
            await self.world.replace(
                "daemonsets", obj, policy, "pods", "controllerrevisions"
            )
            return
        edit = _EDITS[change]
        self.world.change("daemonsets", obj, lambda obj: edit(obj["spec"], rng))

    async def clean_up(self) -> None:
        """Remove the taints; let daemon sets update their pods by themselves."""
        for node in self.world.stored("nodes"):
            self.world.change("nodes", node, _untaint)
        for each in self.world.stored("daemonsets", NAMESPACE):
            if each["spec"]["updateStrategy"]["type"] == "OnDelete":
                self.world.change("daemonsets", each, _roll)


def _strategy(rng: random.Random) -> JSON:
    kind = rng.choice(["OnDelete", "RollingUpdate", "RollingUpdate", "RollingUpdate"])
    if kind == "OnDelete":
        return {"type": kind}
    surge = rng.choice([0, 0, 1, "50%"])
    unavailable = 0 if surge else rng.choice([1, "50%", 2])
    bounds = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": kind, "rollingUpdate": bounds}


def _roll(obj: JSON) -> None:
    bounds = {"maxSurge": 0, "maxUnavailable": 1}
    obj["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": bounds}


def _set_image(spec: JSON, rng: random.Random) -> None:
    spec["template"]["spec"]["containers"][0]["image"] = f"app:v{rng.randrange(5)}"


def _change_strategy(spec: JSON, rng: random.Random) -> None:
    spec["updateStrategy"] = _strategy(rng)


def _change_history(spec: JSON, rng: random.Random) -> None:
    spec["revisionHistoryLimit"] = rng.randrange(3)


def _toggle_label(node: JSON) -> None:
    labels = node["metadata"].setdefault("labels", {})
    if labels.pop(_POOL, None) is None:
        labels[_POOL] = "yes"


def _toggle_taint(node: JSON) -> None:
    if _TAINT in node["spec"].get("taints", []):
        _untaint(node)
    else:
        node["spec"]["taints"] = [*node["spec"].get("taints", []), dict(_TAINT)]


def _untaint(node: JSON) -> None:
    taints = node["spec"].get("taints", [])
    node["spec"]["taints"] = [each for each in taints if each != _TAINT]


_EDITS: Final[dict[str, Callable[[JSON, random.Random], None]]] = {
    "image": _set_image,
    "strategy": _change_strategy,
    "history": _change_history,
}
_NODES: Final[dict[str, Callable[[JSON], None]]] = {
    "label a node": _toggle_label,
    "taint a node": _toggle_taint,
}
_REPLACEMENTS: Final = {
    "replace": "Background",
    "replace, waiting for dependents": "Foreground",
    "replace, keep dependents": "Orphan",
}
"""Ways to delete before creating again (``--cascade``)."""

_CHANGES: Final = (*_EDITS, "image", "image", *_NODES, *_NODES, *_REPLACEMENTS)
