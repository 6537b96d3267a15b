"""Users of autoscalers: their workloads, the load of these, and their edits."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.metrics.answers import CONFIG_MAP, KEY
from tests.controllers.builders import deployment_json
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


NAMESPACE: Final = "default"
NAMES: Final = ("auto-mail", "auto-shop")
"""The deployments, and the autoscalers of the same names."""

SECOND: Final = "second"
"""The name of an autoscaler that somebody makes for a target that has one."""

LOAD: Final = "devcluster/cpu"
_AUTOSCALERS: Final = "horizontalpodautoscalers"
_METRICS: Final = "configmaps"


class AutoscalerUsers(Workload):
    """Users of a few autoscaled deployments; other namespaces have one deployment."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of autoscalers {world.seed}")

    def create_objects(self, namespace: str) -> None:
        rng = self._rng
        names: tuple[str, ...] = NAMES
        if namespace != NAMESPACE:
            rng = random.Random(f"{namespace} autoscalers {self.world.seed}")
            names = NAMES[:1]
        for name in names:
            self._store("deployments", namespace, _deployment(name, rng))
            self._store(_AUTOSCALERS, namespace, _autoscaler(name, name, rng))

    def _store(self, plural: str, namespace: str, obj: JSON) -> None:
        self.world.server.objects.create(self.world.kind(plural), namespace, obj)

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            name, change = rng.choice(NAMES), rng.choice(_CHANGES)
            self._act(name, change, random.Random(rng.random()))

    def _act(self, name: str, change: str, rng: random.Random) -> None:
        if change in _LOADS:
            edit = _LOADS[change]
            self._edit("deployments", name, lambda obj: edit(obj, rng))
        elif change in _EDITS:
            of_spec = _EDITS[change]
            self._edit(_AUTOSCALERS, name, lambda obj: of_spec(obj["spec"], rng))
        elif change == "replace":
            self._replace(name, rng)
        elif change == "second":
            self._make_or_delete(_AUTOSCALERS, _autoscaler(SECOND, name, rng))
        else:
            self._make_or_delete(_METRICS, _failing_metrics())

    def _edit(self, plural: str, name: str, edit: Callable[[JSON], None]) -> None:
        found = self.world.find(plural, NAMESPACE, name)
        if found is not None:
            self.world.change(plural, found, edit)

    def _replace(self, name: str, rng: random.Random) -> None:
        """Delete an autoscaler, and make another one of the same name at once."""
        found = self.world.find(_AUTOSCALERS, NAMESPACE, name)
        assert found is not None
        self.world.delete(_AUTOSCALERS, found)
        self._store(_AUTOSCALERS, NAMESPACE, _autoscaler(name, name, rng))

    def _make_or_delete(self, plural: str, obj: JSON) -> None:
        """Create an object, or delete it if it is there."""
        found = self.world.find(plural, NAMESPACE, obj["metadata"]["name"])
        if found is None:
            self._store(plural, NAMESPACE, obj)
        else:
            self.world.delete(plural, found)

    async def clean_up(self) -> None:
        """Leave each target with one autoscaler and without load."""
        for plural, name in ((_AUTOSCALERS, SECOND), (_METRICS, CONFIG_MAP)):
            found = self.world.find(plural, NAMESPACE, name)
            if found is not None:
                self.world.delete(plural, found)
        for autoscaler in self.world.stored(_AUTOSCALERS):
            self.world.change(_AUTOSCALERS, autoscaler, _follow_the_load)
        for deployment in self.world.stored("deployments"):
            if deployment["metadata"]["name"] in NAMES:
                self.world.change("deployments", deployment, _idle)
        # One that was taken from its deployment keeps the load of that time.
        for replica_set in self.world.stored("replicasets"):
            if replica_set["metadata"].get("annotations", {}).get(LOAD):
                self.world.change("replicasets", replica_set, _take_load_away)


def _deployment(name: str, rng: random.Random) -> JSON:
    deployment = deployment_json(name, rng.randrange(1, 4))
    del deployment["metadata"]["namespace"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m"}}
    _set_load(deployment, rng)
    return deployment


def _autoscaler(name: str, target: str, rng: random.Random) -> JSON:
    spec: JSON = {
        "scaleTargetRef": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": target,
        },
        "metrics": [_cpu(rng)],
    }
    _set_bounds(spec, rng)
    return {"metadata": {"name": name}, "spec": spec}


def _cpu(rng: random.Random) -> JSON:
    target: JSON = {"type": "Utilization", "averageUtilization": rng.choice([40, 80])}
    if rng.random() < 0.3:
        target = {"type": "AverageValue", "averageValue": "60m"}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _failing_metrics() -> JSON:
    data = {KEY: json.dumps({"fail": 503})}
    return {"metadata": {"name": CONFIG_MAP}, "data": data}


def _set_load(deployment: JSON, rng: random.Random) -> None:
    annotations = deployment["metadata"].setdefault("annotations", {})
    annotations[LOAD] = f"total:{rng.choice([0, 50, 150, 300, 500, 900])}m"


def _scale(deployment: JSON, rng: random.Random) -> None:
    deployment["spec"]["replicas"] = rng.choice([0, 1, 3, 6, 9])


def _idle(deployment: JSON) -> None:
    """Take the load away; a target at zero gets a replica, so that it is scaled."""
    _take_load_away(deployment)
    deployment["spec"]["replicas"] = deployment["spec"]["replicas"] or 1


def _take_load_away(obj: JSON) -> None:
    obj["metadata"].setdefault("annotations", {})[LOAD] = "0"


def _set_bounds(spec: JSON, rng: random.Random) -> None:
    spec["minReplicas"] = rng.randrange(1, 4)
    spec["maxReplicas"] = rng.randrange(4, 9)


def _set_metric(spec: JSON, rng: random.Random) -> None:
    spec["metrics"] = [_cpu(rng)]


def _set_behavior(spec: JSON, rng: random.Random) -> None:
    spec["behavior"] = {"scaleUp": _rules(rng), "scaleDown": _rules(rng)}


def _rules(rng: random.Random) -> JSON:
    policies = [
        {"type": "Pods", "value": rng.randrange(1, 4), "periodSeconds": 60},
        {"type": "Percent", "value": rng.choice([50, 100]), "periodSeconds": 30},
    ]
    return {
        "stabilizationWindowSeconds": rng.choice([0, 30, 120]),
        "selectPolicy": rng.choice(["Max", "Min", "Disabled"]),
        "policies": policies,
    }


def _remove_behavior(spec: JSON, _: random.Random) -> None:
    spec.pop("behavior", None)


def _follow_the_load(autoscaler: JSON) -> None:
    """Take the behavior away, which may forbid to scale."""
    autoscaler["spec"].pop("behavior", None)


_LOADS: Final[dict[str, Callable[[JSON, random.Random], None]]] = {
    "load": _set_load,
    "scale": _scale,
}
_EDITS: Final[dict[str, Callable[[JSON, random.Random], None]]] = {
    "bounds": _set_bounds,
    "metric": _set_metric,
    "behavior": _set_behavior,
    "no behavior": _remove_behavior,
}
_CHANGES: Final = (
    *("load", "load", "load", "load", "scale"),
    *_EDITS,
    *("replace", "second", "failing metrics"),
)
