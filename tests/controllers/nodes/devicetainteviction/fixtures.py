"""Devices, claims and pods that use them, for tests on a cluster in memory."""

from dataclasses import replace
from typing import Any

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, RESOURCE_SLICES
from controller_manager.api.dynamicresources.v1beta2 import DEVICE_TAINT_RULES
from controller_manager.api.json_objects import JSON
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.hands import Hands

DRIVER = "gpu.example.com"
TAINT: JSON = {"key": "broken", "effect": "NoExecute"}


def config(*, rules: bool = True, taints: bool = True) -> Config:
    made = make_config(
        controllers=("device-taint-eviction-controller", "cronjob"),
        use_service_account_credentials=True,
    )
    gates = {"DRADeviceTaintRules": rules, "DRADeviceTaints": taints}
    return replace(made, features=FeatureGates(gates))


def tolerating(seconds: int | None = None, **parts: Any) -> JSON:
    """Return a toleration, for ever or for some seconds."""
    toleration: JSON = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    if seconds is not None:
        toleration["tolerationSeconds"] = seconds
    return toleration | parts


def device(name: str, *taints: JSON) -> JSON:
    return {"name": name, "taints": list(taints)} if taints else {"name": name}


class Devices(Hands):
    """A cluster with devices, claims and pods that use them."""

    def add_slice(
        self, name: str, *devices: JSON, generation: int = 1, pool: str = "a"
    ) -> None:
        pool_of: JSON = {
            "name": pool,
            "generation": generation,
            "resourceSliceCount": 1,
        }
        spec: JSON = {"driver": DRIVER, "pool": pool_of, "nodeName": "a"}
        self.put(RESOURCE_SLICES, name, spec={**spec, "devices": list(devices)})

    def publish(self, name: str, *devices: JSON) -> None:
        self.edit(RESOURCE_SLICES, name, spec={"devices": list(devices)})

    def add_user(
        self, name: str, *devices: str, tolerations: tuple[JSON, ...] = ()
    ) -> None:
        """Add a pod on the node a, and a claim with devices that is reserved for it."""
        spec: JSON = {
            "nodeName": "a",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "c", "image": "app:v1"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        }
        made = self.put(PODS, name, spec=spec, status={"phase": "Running"})
        self.add_claim(name, made["metadata"]["uid"], devices, tolerations)

    def add_claim(
        self,
        name: str,
        uid: str,
        devices: tuple[str, ...],
        tolerations: tuple[JSON, ...] = (),
        **metadata: Any,
    ) -> None:
        known = {"request": "gpu", "driver": DRIVER, "pool": "a"}
        results = [
            {**known, "device": each, "tolerations": list(tolerations)}
            for each in devices
        ]
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        self.put(
            RESOURCE_CLAIMS,
            name,
            metadata=metadata,
            spec={"devices": {"requests": [request]}},
            status={
                "allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
            },
        )

    def add_rule(self, name: str, effect: str = "NoExecute", **selector: str) -> None:
        spec = {"deviceSelector": selector, "taint": {**TAINT, "effect": effect}}
        self.put(DEVICE_TAINT_RULES, name, spec=spec)

    def condition(self, rule: str) -> tuple[str, str, str] | None:
        """Return status, reason and message of the condition of a rule."""
        stored = self.stored(DEVICE_TAINT_RULES, rule)
        for each in stored.get("status", {}).get("conditions", ()):
            assert each["type"] == "EvictionInProgress"
            assert each["observedGeneration"] == stored["metadata"]["generation"]
            return each["status"], each["reason"], each["message"]
        return None

    def evicted(self) -> list[str]:
        found = [each["metadata"] for each in self.all(PODS)]
        return sorted(each["name"] for each in found if "deletionTimestamp" in each)


def event(pod: str, message: str) -> str:
    source = "device-taint-eviction-controller"
    return f"{pod} Normal DeviceTaintManagerEviction [{source}]: {message}"


MARKING = "Marking for deletion"
CANCELLING = "Cancelling deletion"
