"""A workload: users use up quotas, change them, and delete objects."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


LIMITED: Final = "limited"
"""The namespace of the quotas."""

_LIMITS: Final = {
    "compute": {"pods": 6, "requests.cpu": 3, "limits.memory": 4},
    "objects": {"secrets": 5, "count/configmaps": 6, "services.nodeports": 3},
    "storage": {"requests.storage": 20, "persistentvolumeclaims": 5},
    "long": {"pods": 4, "requests.cpu": 2},
}
"""The quotas with their limits at first; `long` counts pods without a deadline."""

_MADE: Final = ("pods", "secrets", "configmaps", "services", "persistentvolumeclaims")


def quota_json(name: str) -> JSON:
    """Return one of the quotas."""
    hard = {key: str(number) for key, number in _LIMITS[name].items()}
    spec: JSON = {"hard": hard}
    if name == "long":
        spec["scopes"] = ["NotTerminating"]
    return {"metadata": {"name": name}, "spec": spec}


class QuotaUsers(Workload):
    """Users of four quotas in one namespace; in others there is one quota."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"quotas {world.seed}")
        self._made = 0

    def create_objects(self, namespace: str) -> None:
        if namespace != NAMESPACE:
            return
        self.world.create_namespace(LIMITED)
        for name in _LIMITS:
            self._store("resourcequotas", quota_json(name))
        for _ in range(6):
            self._make()

    def _store(self, plural: str, obj: JSON) -> None:
        self.world.create(plural, LIMITED, obj)

    async def use(self, operations: int) -> None:
        acts = (self._make, self._make, self._remove, self._end, self._change)
        more = (self._edit_status, self._retype, self._give_deadline)
        for _ in range(operations):
            await asyncio.sleep(self._rng.choice([0.01, 0.5, 20]))
            act = self._rng.choice((*acts, *acts, *more))
            try:
                act()
            except Refusal as refusal:
                # The quota is used up; its users try again some other time.
                if refusal.reason != "Forbidden":
                    raise

    def _make(self) -> None:
        """Create an object of some kind; a quota may refuse it."""
        self._made += 1
        plural = self._rng.choice(_MADE)
        self._store(plural, _object(plural, f"{plural}-{self._made}", self._rng))

    def _some(self, plural: str) -> JSON | None:
        stored = self.world.stored(plural, LIMITED)
        return self._rng.choice(stored) if stored else None

    def _remove(self) -> None:
        plural = self._rng.choice(_MADE)
        if (found := self._some(plural)) is not None:
            self.world.delete(plural, found)

    def _end(self) -> None:
        """Let a pod end."""
        if (pod := self._some("pods")) is None:
            return
        status = {"phase": self._rng.choice(["Succeeded", "Failed"])}
        self._write_status("pods", pod, status)

    def _change(self) -> None:
        """Raise or lower a limit, or drop it."""
        quota = self._some("resourcequotas")
        if quota is None:
            return
        hard = {**quota["spec"]["hard"]}
        name = self._rng.choice(sorted(_LIMITS[quota["metadata"]["name"]]))
        if name in hard and len(hard) > 1 and self._rng.random() < 0.3:
            del hard[name]
        else:
            hard[name] = str(self._rng.randint(1, 9))
        self.world.change(
            "resourcequotas", quota, lambda obj: obj["spec"].update(hard=hard)
        )

    def _edit_status(self) -> None:
        """Write a usage by hand; the next recount puts it right."""
        quota = self._some("resourcequotas")
        if quota is not None and (used := quota.get("status", {}).get("used")):
            wrong = {**used, self._rng.choice(sorted(used)): "1"}
            self._write_status("resourcequotas", quota, {"used": wrong})

    def _retype(self) -> None:
        """Give a service node ports, or take them away."""
        if (service := self._some("services")) is None:
            return
        is_plain = service["spec"].get("type") == "ClusterIP"

        def change(obj: JSON) -> None:
            obj["spec"]["type"] = "NodePort" if is_plain else "ClusterIP"
            for port in obj["spec"]["ports"]:
                port.pop("nodePort", None)

        self.world.change("services", service, change)

    def _give_deadline(self) -> None:
        pod = self._some("pods")
        if pod is not None and "activeDeadlineSeconds" not in pod["spec"]:
            self.world.change(
                "pods", pod, lambda obj: obj["spec"].update(activeDeadlineSeconds=9999)
            )

    def _write_status(self, plural: str, obj: JSON, status: JSON) -> None:
        body = {**obj, "status": {**obj.get("status", {}), **status}}
        kind, name = self.world.kind(plural), obj["metadata"]["name"]
        self.world.server.objects.update(kind, LIMITED, name, body, "status")


def _object(plural: str, name: str, rng: random.Random) -> JSON:
    """Return an object that quotas count."""
    obj: JSON = {"metadata": {"name": name}}
    match plural:
        case "pods":
            amounts = {
                "requests": {"cpu": rng.choice(["100m", "0.5", "1"])},
                "limits": {"memory": rng.choice(["1", "1500m"])},
            }
            container = {"name": "c", "image": "app:v1", "resources": amounts}
            obj["spec"] = {"containers": [container]}
        case "services":
            kind = rng.choice(["ClusterIP", "NodePort"])
            obj["spec"] = {"type": kind, "ports": [{"port": 80}]}
        case "persistentvolumeclaims":
            requests = {"storage": rng.choice(["1", "2500m", "7"])}
            obj["spec"] = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": requests},
            }
    return obj
