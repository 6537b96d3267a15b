"""The actions of users on daemon sets and nodes: change, label, taint, replace."""

import random
from collections.abc import Callable, Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.apps.workload import REPLACEMENTS, Edit, TemplateUsers, set_image
from tests.controllers.builders import daemon_set_json
from tests.simulation.workload import READY_AFTER
from tests.simulation.world import NAMESPACE

_NAMES: Final = ("agent", "logs")
_HOSTNAME: Final = "kubernetes.io/hostname"
_POOL: Final = "example.com/pool"
_TAINT: Final = {"key": "example.com/reserved", "effect": "NoSchedule"}


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


_EDITS: Final[Mapping[str, Edit]] = {
    "image": set_image,
    "strategy": _change_strategy,
    "history": _change_history,
}
_NODES: Final[dict[str, Callable[[JSON], None]]] = {
    "label a node": _toggle_label,
    "taint a node": _toggle_taint,
}
_CHANGES: Final = (*_EDITS, "image", "image", *_NODES, *_NODES, *REPLACEMENTS)


class DaemonSetUsers(TemplateUsers):
    """Users of two daemon sets in one namespace; in others there is one.

    One of the two selects nodes by a label that users change.
    """

    plural = "daemonsets"
    names = _NAMES
    edits = _EDITS
    changes = _CHANGES
    dependents = ("pods", "controllerrevisions")
    seed_text = "users of daemon sets"

    def create_objects(self, namespace: str) -> None:
        names = _NAMES if namespace == NAMESPACE else _NAMES[:1]
        for name in names:
            rng = random.Random(f"{namespace} {name} {self.world.seed}")
            self.create(namespace, name, rng)

    def random_object(self, name: str, rng: random.Random) -> JSON:
        spec: JSON = {
            "updateStrategy": _strategy(rng),
            **rng.choice(READY_AFTER),
            "revisionHistoryLimit": rng.choice([0, 2, 10]),
        }
        obj = daemon_set_json(name, **spec)
        if name == "logs":
            obj["spec"]["template"]["spec"]["nodeSelector"] = {_POOL: "yes"}
        return obj

    async def act(self, name: str, change: str, rng: random.Random) -> None:
        if change not in _NODES:
            await super().act(name, change, rng)
            return
        # Nodes with a kubelet stay; others pass, so a choice among them would depend on
        # the time, which faults shift.
        nodes = [
            node
            for node in self.world.stored("nodes")
            if _HOSTNAME in node["metadata"].get("labels", {})
        ]
        self.world.change("nodes", rng.choice(nodes), _NODES[change])

    async def clean_up(self) -> None:
        """Remove the taints; let daemon sets update their pods by themselves."""
        for node in self.world.stored("nodes"):
            self.world.change("nodes", node, _untaint)
        for each in self.world.stored("daemonsets", NAMESPACE):
            if each["spec"]["updateStrategy"]["type"] == "OnDelete":
                self.world.change("daemonsets", each, _roll)
