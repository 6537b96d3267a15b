"""The actions of users on stateful sets: scale, change, break and repair, replace."""

import random
from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.apps.statefulset.identity import (
    parent_and_ordinal,
)
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    rolling,
    stateful_set_json,
)
from tests.controllers.apps.workload import (
    REPLACEMENTS,
    Edit,
    TemplateUsers,
    restart,
    set_image,
)
from tests.simulation.workload import READY_AFTER
from tests.simulation.world import DELETABLE_NAMESPACE, NAMESPACE

_NAMES: Final = ("db", "queue")
_BROKEN: Final = "broken:v1"


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


def _break(spec: JSON, _: random.Random) -> None:
    spec["template"]["spec"]["containers"][0]["image"] = _BROKEN


def _scale(spec: JSON, rng: random.Random) -> None:
    spec["replicas"] = rng.randrange(5)


def _renumber(spec: JSON, rng: random.Random) -> None:
    spec["ordinals"] = {"start": rng.randrange(3)}


def _change_strategy(spec: JSON, rng: random.Random) -> None:
    strategies = ({"type": "OnDelete"}, rolling(), rolling(), rolling(1), rolling(2))
    spec["updateStrategy"] = rng.choice(strategies)


def _change_retention(spec: JSON, rng: random.Random) -> None:
    spec["persistentVolumeClaimRetentionPolicy"] = _retention(rng)


_EDITS: Final[Mapping[str, Edit]] = {
    "image": set_image,
    "break": _break,
    "scale": _scale,
    "renumber": _renumber,
    "restart": restart,
    "strategy": _change_strategy,
    "retention": _change_retention,
}
_CHANGES: Final = (*_EDITS, "image", "scale", "image", "scale", *REPLACEMENTS)


class StatefulSetUsers(TemplateUsers):
    """Users of two stateful sets in one namespace; in others there is one."""

    plural = "statefulsets"
    names = _NAMES
    edits = _EDITS
    changes = _CHANGES
    dependents = ("pods", "controllerrevisions", "persistentvolumeclaims")
    seed_text = "users of stateful sets"

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for name in _NAMES:
                self.create(namespace, name, self._rng)
        else:
            rng = random.Random(f"stateful set of {namespace} {self.world.seed}")
            self.create(namespace, "db", rng)

    def random_object(self, name: str, rng: random.Random) -> JSON:
        spec: JSON = {
            "podManagementPolicy": rng.choice(["OrderedReady", "Parallel"]),
            **rng.choice(READY_AFTER),
            "revisionHistoryLimit": rng.choice([0, 2, 10]),
            "persistentVolumeClaimRetentionPolicy": _retention(rng),
        }
        if rng.random() < 0.5:
            spec["volumeClaimTemplates"] = [claim_template()]
        return stateful_set_json(name, rng.randrange(1, 4), **spec)

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
