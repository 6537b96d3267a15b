"""Deleted claims stay while pods use them, in memory and on virtual time."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialObject
from controller_manager.api.scalars import parse_time
from controller_manager.control.pod_indexes import PODS_BY_CLAIM, claim_names
from controller_manager.controllers.storage.claimprotection import UNUSED_SINCE
from controller_manager.controllers.storage.claimprotection.pods import uses
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.storage.objects import Storage, ephemeral, owned_by


def config(*, tracks: bool = False) -> Config:
    """Return a config; the manager `tracks` since when claims are unused."""
    made = make_config(controllers=("pvc-protection",))
    return replace(made, features=FeatureGates({UNUSED_SINCE.name: tracks}))


class Claims(Storage):
    def claims(self) -> dict[str, list[str]]:
        return self.finalizers(CLAIMS)

    def pod_with_own_volume(self, name: str, owner: str = "", **parts: Any) -> None:
        """Add a pod and its claim, which it controls unless another pod does."""
        uid = self.pod(name, volumes=[ephemeral("data")], **parts)
        self.claim(f"{name}-data", metadata=owned_by(name, owner or uid))

    def far_ahead(self, resource: str) -> None:
        self.server.storage.collection(resource).separate(1_000_000)

    def unused_now(self, name: str = "data") -> JSON:
        """Return the condition of a claim without its time."""
        found = self.unused(name)
        del found["ago"]
        return found

    def unused(self, name: str = "data") -> JSON:
        """Return the condition of a claim; it is some seconds ``ago``."""
        conditions = self.stored(CLAIMS, name)["status"]["conditions"]
        (found,) = (each for each in conditions if each["type"] == "Unused")
        since = parse_time(found.pop("lastTransitionTime"))
        present = {key: each for key, each in found.items() if each is not None}
        return {**present, "ago": (self.clock.now() - since).total_seconds()}


@pytest.mark.looptime
@scenarios("storage/claimprotection")
async def test_claims_stay_while_they_are_used(scenario: Scenario) -> None:
    await scenario.play(Claims, config)


DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}
SCRATCH = {"name": "scratch", "ephemeral": {}}
OTHER = {"name": "config"}


def pod(*volumes: JSON, node: str = "n", phase: str = "", **deleted: Any) -> Pod:
    metadata = {"name": "web", "namespace": "ns", "uid": "pod", **deleted}
    spec = {"nodeName": node, "volumes": volumes or None}
    obj = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(obj, Pod)


def claim(name: str = "claim", owner: str = "") -> PartialObject:
    """Return a claim, controlled by the owner of that uid if there is one."""
    owners = owned_by("web", owner) if owner else {}
    metadata = {"name": name, "namespace": "ns", **owners}
    return msgspec.convert({"metadata": metadata}, PartialObject)


DELETED: JSON = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
DONE: JSON = {**DELETED, "deletionGracePeriodSeconds": 0}
ENDING: JSON = {**DELETED, "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("user", "used", "is_used"),
    [
        (pod(), claim(), False),
        (pod(OTHER, DATA), claim(), True),
        (pod(OTHER, DATA), claim("other"), False),
        (pod(DATA, node=""), claim(), False),
        (pod(DATA, phase="Succeeded"), claim(), True),
        (pod(DATA, **DELETED), claim(), True),
        (pod(DATA, **DONE), claim(), True),
        (pod(DATA, **DONE), claim(owner="pod"), False),
        (pod(DATA, **DELETED), claim(owner="pod"), True),
        (pod(SCRATCH), claim("web-scratch", "pod"), True),
        (pod(SCRATCH), claim("web-scratch", "other"), False),
        (pod(SCRATCH), claim("web-scratch"), False),
        (pod(SCRATCH, node=""), claim("web-scratch", "pod"), False),
        (pod(SCRATCH, **ENDING), claim("web-scratch", "pod"), True),
        (pod(SCRATCH, **DONE), claim("web-scratch", "pod"), False),
    ],
)
def test_a_pod_uses_a_claim(user: Pod, used: PartialObject, *, is_used: bool) -> None:
    """It must have a node, and own the claim of an ephemeral volume."""
    assert uses(user, used) is is_used


def test_a_pod_names_its_claims_also_if_it_does_not_use_them() -> None:
    user = pod(DATA, OTHER, SCRATCH, node="")
    assert list(claim_names(user)) == ["claim", "web-scratch"]
    assert list(PODS_BY_CLAIM.function(user)) == ["ns/claim", "ns/web-scratch"]
