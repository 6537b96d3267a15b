"""Pods with claims to devices, and a scheduler that allocates them."""

import asyncio
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from controller_manager.api.dynamicresources.v1 import (
    DELETE_PROTECTION,
    POD_CLAIM_NAME,
)
from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.resource import CLAIM_TEMPLATES, CLAIMS
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


DEVICES: Final = "devices"
"""The namespace of these users; quotas and edits of pods are in another one."""

TEMPLATE_NAME: Final = "gpu"
SHARED: Final = "shared"
_NODE: Final = "node-0"
_NAMES: Final = ("train", "serve", "notebook")
_SPEC: Final[JSON] = {
    "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
}
_RESULT: Final = {"request": "r", "driver": "d", "pool": _NODE, "device": "card-0"}
_ALLOCATION: Final[JSON] = {"devices": {"results": [_RESULT]}}


class DeviceClaimUsers(Workload):
    """They run pods with own claims and a shared claim; pods end and are deleted."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of device claims {world.seed}")

    async def use(self, operations: int) -> None:
        begin(self.world)
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 40))
            name = rng.choice(_NAMES)
            if find_pod(self.world, name) is None:
                run(self.world, name, is_bound=rng.random() < 0.7)
                continue
            act = rng.choice((allocate, allocate, end, go, lose))
            act(self.world, name)
            if act is go and rng.random() < 0.5:
                run(self.world, name)

    async def clean_up(self) -> None:
        """Give each remaining pod its devices, so that nothing is pending."""
        await asyncio.sleep(60)
        for name in _NAMES:
            allocate(self.world, name)


def begin(world: "World") -> None:
    """Create the namespace, its template and the shared claim."""
    world.create_namespace(DEVICES)
    objects = world.server.objects
    template = {"metadata": {"name": TEMPLATE_NAME}, "spec": {"spec": _SPEC}}
    objects.create(CLAIM_TEMPLATES, DEVICES, template)
    objects.create(CLAIMS, DEVICES, {"metadata": {"name": SHARED}, "spec": _SPEC})


def find_pod(world: "World", name: str) -> JSON | None:
    """Return a pod of these users."""
    return world.find("pods", DEVICES, name)


def run(world: "World", name: str, *, is_bound: bool = True) -> None:
    """Run a pod; a pod that is bound at once was not seen by the scheduler."""
    spec: JSON = {
        "containers": [{"name": "c", "image": "app:v1"}],
        "resourceClaims": [
            {"name": "own", "resourceClaimTemplateName": TEMPLATE_NAME},
            {"name": "other", "resourceClaimName": SHARED},
        ],
        # The stand-in of a scheduler binds no such pod.
        "schedulerName": "devices",
    }
    if is_bound:
        spec["nodeName"] = _NODE
    pod = {"metadata": {"name": name}, "spec": spec}
    world.server.objects.create(POD, DEVICES, pod)


def claims_of(world: "World", name: str) -> Iterator[JSON]:
    """Yield the claims of a pod: the shared one, and its own if it exists."""
    pod = find_pod(world, name)
    for claim in world.stored("resourceclaims", DEVICES):
        owners = claim["metadata"].get("ownerReferences", ())
        is_own = pod is not None and pod["metadata"]["uid"] in [
            each["uid"] for each in owners
        ]
        if is_own or claim["metadata"]["name"] == SHARED:
            yield claim


def allocate(world: "World", name: str) -> None:
    """Allocate the claims of a pod that have no devices, with the finalizer first."""
    for claim in list(claims_of(world, name)):
        if claim.get("status", {}).get("allocation"):
            continue
        if claim["metadata"].get("deletionTimestamp"):
            continue
        if DELETE_PROTECTION not in claim["metadata"].get("finalizers", ()):
            world.change("resourceclaims", claim, _protect)
        found = world.find("resourceclaims", DEVICES, claim["metadata"]["name"])
        assert found is not None
        set_status(world, found, {"allocation": _ALLOCATION})


def _protect(obj: JSON) -> None:
    obj["metadata"].setdefault("finalizers", []).append(DELETE_PROTECTION)


def set_status(world: "World", claim: JSON, fields: JSON) -> None:
    """Set fields of the status of a claim, as a scheduler does."""
    world.change(
        "resourceclaims",
        claim,
        lambda obj: obj.setdefault("status", {}).update(fields),
        "status",
    )


def end(world: "World", name: str) -> None:
    """Let a pod end; it stays, and is still bound to its node."""
    pod = find_pod(world, name)
    assert pod is not None
    if not pod["metadata"].get("deletionTimestamp"):
        world.change(
            "pods",
            pod,
            lambda obj: obj.setdefault("status", {}).update(phase="Succeeded"),
            "status",
        )


def go(world: "World", name: str) -> None:
    """Delete a pod at once, as after a node was lost."""
    pod = find_pod(world, name)
    assert pod is not None
    world.delete("pods", pod, grace=0)


def lose(world: "World", name: str) -> None:
    """Delete a pod's own claim, by mistake."""
    for claim in list(claims_of(world, name)):
        annotations = claim["metadata"].get("annotations", {})
        if POD_CLAIM_NAME in annotations:
            world.delete("resourceclaims", claim)
