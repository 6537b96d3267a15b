"""The actions of users on stateful sets: scale, change, break and repair, replace."""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.apps.statefulset.identity import (
    parent_and_ordinal,
)
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    rolling,
    stateful_set_json,
)
from tests.simulation.workload import READY_AFTER, Workload
from tests.simulation.world import DELETABLE_NAMESPACE, NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


_NAMES: Final = ("db", "queue")
_BROKEN: Final = "broken:v1"

_DEPENDENTS: Final = ("pods", "controllerrevisions", "persistentvolumeclaims")


class StatefulSetUsers(Workload):
    """Users of two stateful sets in one namespace; in others there is one."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of stateful sets {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for name in _NAMES:
                self._create(namespace, name, self._rng)
        else:
            rng = random.Random(f"stateful set of {namespace} {self.world.seed}")
            self._create(namespace, "db", rng)

    def _create(self, namespace: str, name: str, rng: random.Random) -> None:
        spec: JSON = {
            "podManagementPolicy": rng.choice(["OrderedReady", "Parallel"]),
            **rng.choice(READY_AFTER),
            "revisionHistoryLimit": rng.choice([0, 2, 10]),
            "persistentVolumeClaimRetentionPolicy": _retention(rng),
        }
        if rng.random() < 0.5:
            spec["volumeClaimTemplates"] = [claim_template()]
        stateful_set = stateful_set_json(name, rng.randrange(1, 4), **spec)
        stateful_set["metadata"]["namespace"] = namespace
        kind = self.world.kind("statefulsets")
        self.world.server.objects.create(kind, namespace, stateful_set)

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, change = rng.choice(_NAMES), rng.choice(_CHANGES)
            await self._edit(name, change, random.Random(rng.random()))

    async def _edit(self, name: str, change: str, rng: random.Random) -> None:
        obj = self.world.find("statefulsets", NAMESPACE, name)
        assert obj is not None
        if change in _REPLACEMENTS:
            policy = _REPLACEMENTS[change]
            await self.world.replace(
                "statefulsets",
                obj,
                policy,
                "pods",
                "controllerrevisions",
                "persistentvolumeclaims",
            )
            return
        edit = _EDITS[change]
        self.world.change("statefulsets", obj, lambda obj: edit(obj["spec"], rng))

    async def clean_up(self) -> None:
        """Repair broken templates, update all pods, and delete those that hinder.

        They are released, or broken and to be scaled away: of several such pods the
        controller deletes none, as upstream's.
        """
        for namespace in (NAMESPACE, DELETABLE_NAMESPACE):
            for stateful_set in self.world.stored("statefulsets", namespace):
                self.world.change("statefulsets", stateful_set, _finish)
            stateful_sets = {
                each["metadata"]["name"]: each
                for each in self.world.stored("statefulsets", namespace)
            }
            for pod in self.world.stored("pods", namespace):
                parent, ordinal = parent_and_ordinal(pod["metadata"]["name"]) or ("", 0)
                if parent in stateful_sets and _hinders(
                    pod, stateful_sets[parent], ordinal
                ):
                    self.world.delete("pods", pod, grace=0)


def _hinders(pod: JSON, stateful_set: JSON, ordinal: int) -> bool:
    """Tell whether a pod is released, or broken and condemned."""
    labels = pod["metadata"].get("labels", {})
    if labels.get("app") != stateful_set["metadata"]["name"]:
        return True
    spec = stateful_set["spec"]
    first = spec.get("ordinals", {}).get("start", 0)
    is_wanted = first <= ordinal < first + spec["replicas"]
    return not is_wanted and pod["spec"]["containers"][0]["image"] == _BROKEN


def _finish(obj: JSON) -> None:
    spec = obj["spec"]
    spec["updateStrategy"] = rolling()
    container = spec["template"]["spec"]["containers"][0]
    if container["image"] == _BROKEN:
        container["image"] = "app:repaired"


def _retention(rng: random.Random) -> JSON:
    policies = ("Retain", "Delete")
    return {"whenDeleted": rng.choice(policies), "whenScaled": rng.choice(policies)}


def _set_image(spec: JSON, rng: random.Random) -> None:
    spec["template"]["spec"]["containers"][0]["image"] = f"app:v{rng.randrange(5)}"


def _break(spec: JSON, _: random.Random) -> None:
    spec["template"]["spec"]["containers"][0]["image"] = _BROKEN


def _scale(spec: JSON, rng: random.Random) -> None:
    spec["replicas"] = rng.randrange(5)


def _renumber(spec: JSON, rng: random.Random) -> None:
    spec["ordinals"] = {"start": rng.randrange(3)}


def _restart(spec: JSON, rng: random.Random) -> None:
    annotations = spec["template"]["metadata"].setdefault("annotations", {})
    annotations["restartedAt"] = f"{rng.random():.6f}"


def _change_strategy(spec: JSON, rng: random.Random) -> None:
    strategies = ({"type": "OnDelete"}, rolling(), rolling(), rolling(1), rolling(2))
    spec["updateStrategy"] = rng.choice(strategies)


def _change_retention(spec: JSON, rng: random.Random) -> None:
    spec["persistentVolumeClaimRetentionPolicy"] = _retention(rng)


_EDITS: Final[dict[str, Callable[[JSON, random.Random], None]]] = {
    "image": _set_image,
    "break": _break,
    "scale": _scale,
    "renumber": _renumber,
    "restart": _restart,
    "strategy": _change_strategy,
    "retention": _change_retention,
}
_REPLACEMENTS: Final = {
    "replace": "Background",
    "replace, waiting for dependents": "Foreground",
    "replace, keep dependents": "Orphan",
}
"""Ways to delete before creating again (``--cascade``)."""

_CHANGES: Final = (*_EDITS, "image", "scale", "image", "scale", *_REPLACEMENTS)
