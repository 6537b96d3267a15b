"""Pods with tainted devices are evicted on a cluster in memory, on virtual time."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, RESOURCE_SLICES
from controller_manager.api.dynamicresources.v1beta2 import DEVICE_TAINT_RULES
from controller_manager.api.json_objects import JSON
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios

pytestmark = pytest.mark.looptime

DRIVER = "gpu.example.com"
TAINT: JSON = {"key": "broken", "effect": "NoExecute"}


def config(*, rules: bool = True, taints: bool = True) -> Config:
    made = make_config(
        controllers=("device-taint-eviction-controller", "cronjob"),
        use_service_account_credentials=True,
    )
    gates = {"DRADeviceTaintRules": rules, "DRADeviceTaints": taints}
    return replace(made, features=FeatureGates(gates))


def device(name: str) -> JSON:
    """Return a device of this name, which is tainted if ``:tainted`` ends it."""
    name, _, tainted = name.partition(":")
    return {"name": name, "taints": [TAINT]} if tainted else {"name": name}


class Devices(Hands):
    """A cluster with two devices, claims and pods that use them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.put(NODES, "a")
        self.add_slice("slice", "gpu-0", "gpu-1")

    def add_slice(
        self, name: str, *devices: str, generation: int = 1, pool: str = "a"
    ) -> None:
        pool_of: JSON = {
            "name": pool,
            "generation": generation,
            "resourceSliceCount": 1,
        }
        spec: JSON = {"driver": DRIVER, "pool": pool_of, "nodeName": "a"}
        self.put(
            RESOURCE_SLICES,
            name,
            spec={**spec, "devices": [device(each) for each in devices]},
        )

    def publish(self, name: str, *devices: str) -> None:
        self.edit(
            RESOURCE_SLICES, name, spec={"devices": [device(each) for each in devices]}
        )

    def add_user(
        self,
        name: str,
        *devices: str,
        tolerated: Any = (),
        tolerations: tuple[JSON, ...] = (),
    ) -> None:
        """Add a pod on the node a, and a claim with devices that is reserved for it.

        The taint is `tolerated` for some seconds, or for ever.
        """
        every = tolerated if isinstance(tolerated, (list, tuple)) else [tolerated]
        known = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
        tolerations = tolerations or tuple(
            known if each is None else {**known, "tolerationSeconds": each}
            for each in every
        )
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


@scenarios("nodes/devicetainteviction")
async def test_pods_with_tainted_devices_are_evicted(scenario: Scenario) -> None:
    features = FeatureGates({"DRADeviceTaintRules": True})
    await scenario.play(Devices, config, rbac=True, features=features)


async def test_only_claims_of_the_pod_count() -> None:
    gpus = Devices(rbac=True)
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    containers = [{"name": "c", "image": "app:v1"}]
    for name, node in (("bound", "a"), ("unbound", ""), ("strange", "a")):
        spec: JSON = {"containers": containers, "resourceClaims": claims}
        if node:
            spec["nodeName"] = node
        statuses = [{"name": "gpu", "resourceClaimName": name}]
        gpus.add("Pod", name, spec=spec, status={"resourceClaimStatuses": statuses})
        uid = (await gpus.client.get(PODS, "default", name)).metadata.uid
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": name,
            "uid": "x" if name == "strange" else uid,
            "controller": True,
        }
        gpus.add_claim(name, uid, ("gpu-0",), ownerReferences=[owner])
    gpus.add_user("unreserved")
    gpus.add_claim("mine", "x", ("gpu-0",))
    async with gpus.confined_manager(config()):
        gpus.publish("slice", "gpu-0:tainted")
        await asyncio.sleep(5)
        assert gpus.evicted() == ["bound"]
