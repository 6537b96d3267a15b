"""Pods get claims for their ephemeral volumes, in memory and on virtual time."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from prometheus_client import CollectorRegistry

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import (
    NAMESPACES,
    PODS,
    Pod,
    PodMeta,
    PodSpec,
    PodVolume,
)
from controller_manager.api.meta import (
    ObjectMeta,
    OwnerReference,
    PartialMetadata,
    PartialObject,
)
from controller_manager.controllers.storage.ephemeralvolume import controller
from controller_manager.controllers.storage.ephemeralvolume.controller import (
    EphemeralVolumeMetrics,
    claim_of,
    conflict,
    ephemeral_volumes,
    needs_claims,
)
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.responses import refusal
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.storage.objects import Storage, ephemeral, owned_by

pytestmark = pytest.mark.looptime

POST = "/api/v1/namespaces/default/persistentvolumeclaims"
FAILED = (
    "web Warning FailedBinding [ephemeral_volume]: ephemeral volume scratch: "
    "create PVC web-scratch: exceeded quota"
)


def config() -> Config:
    return make_config(
        controllers=("ephemeral-volume",), use_service_account_credentials=True
    )


class Ephemeral(Storage):
    def web(self, *volumes: str) -> str:
        """Add the pod "web" with ephemeral volumes; return its uid."""
        made = [ephemeral(each) for each in volumes]
        for each in made:
            template = each["ephemeral"]["volumeClaimTemplate"]
            template["metadata"] = {"labels": {"of": "web"}}
        return self.pod("web", volumes=made)

    def web_in_deleted_namespace(self) -> None:
        self.add_namespace("old")
        containers = [{"name": "c", "image": "app:v1"}]
        spec = {"containers": containers, "volumes": [ephemeral("scratch")]}
        self.put(PODS, "web", "old", spec=spec)
        self.remove(NAMESPACES, "old")

    def foreign(self, owner: str = "") -> None:
        """Add the claim "web-scratch", controlled by the pod of that uid, if any."""
        self.claim("web-scratch", metadata=owned_by("web", owner) if owner else {})

    def owners(self) -> dict[str, list[str]]:
        found = [each["metadata"] for each in self.all(CLAIMS)]
        return {
            each["name"]: [one["uid"] for one in each.get("ownerReferences", ())]
            for each in found
        }


@pytest.fixture
async def cluster() -> Ephemeral:
    return Ephemeral()


@scenarios("storage/ephemeralvolume")
async def test_pods_get_their_claims(scenario: Scenario) -> None:
    await scenario.play(Ephemeral, config)


async def test_a_refused_claim_is_retried_and_counted(
    cluster: Ephemeral, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first refusal ends the sync; the metrics are upstream's."""
    registry = CollectorRegistry()
    metrics = EphemeralVolumeMetrics(registry)
    monkeypatch.setattr(controller, "EphemeralVolumeMetrics", lambda _: metrics)
    uid = cluster.web("scratch", "cache")
    error = refusal(403, "Forbidden", "exceeded quota")
    async with cluster.manager(config(), Before(cluster, "POST", POST, lambda: error)):
        await asyncio.sleep(2)
        assert cluster.owners() == {"web-scratch": [uid], "web-cache": [uid]}
    assert cluster.told() == [FAILED]
    assert {
        name: registry.get_sample_value(f"ephemeral_volume_controller_{name}")
        for name in ("create_total", "create_failures_total")
    } == {"create_total": 3.0, "create_failures_total": 1.0}


TEMPLATE = {
    "metadata": {"labels": {"x": "y"}, "annotations": {"a": "b"}},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}


def volume(name: str, **source: Any) -> PodVolume:
    encoded = msgspec.json.encode({"name": name, **source})
    return msgspec.json.decode(encoded, type=PodVolume)


SCRATCH = volume("scratch", ephemeral={"volumeClaimTemplate": TEMPLATE})
BARE = volume("bare", ephemeral={})
DATA = volume("data", persistentVolumeClaim={"claimName": "claim"})
OWNER = OwnerReference(
    api_version="v1",
    kind="Pod",
    name="web",
    uid="pod",
    controller=True,
    block_owner_deletion=True,
)


def pod(*volumes: PodVolume, deleted: str | None = None) -> Pod:
    metadata = PodMeta(
        name="web", namespace="ns", uid="pod", deletion_timestamp=deleted
    )
    return Pod(metadata=metadata, spec=PodSpec(volumes=volumes or None))


@pytest.mark.parametrize(
    ("source", "spec", "metadata"),
    [
        (
            SCRATCH,
            Raw(b'{"accessModes":["ReadWriteOnce"]}'),
            {"labels": {"x": "y"}, "annotations": {"a": "b"}},
        ),
        # The API server refuses such pods, and would refuse the claim.
        (BARE, Raw(b"{}"), {}),
    ],
)
def test_a_claim_is_made_from_the_template_and_owned_by_the_pod(
    source: PodVolume, spec: Raw, metadata: dict[str, Any]
) -> None:
    name, owners = f"web-{source.name}", (OWNER,)
    whole = ObjectMeta(name=name, namespace="ns", owner_references=owners, **metadata)
    expected = PersistentVolumeClaim(metadata=whole, raw_spec=spec)
    assert claim_of(pod(source), source) == expected


@pytest.mark.parametrize(
    ("of", "is_needed"),
    [
        (pod(), False),
        (pod(DATA), False),
        (pod(DATA, SCRATCH), True),
        (pod(SCRATCH, deleted="2026-01-01T00:00:00Z"), False),
    ],
)
def test_only_ephemeral_volumes_need_claims(of: Pod, *, is_needed: bool) -> None:
    assert needs_claims(of) is is_needed


def test_claims_are_made_for_ephemeral_volumes_only() -> None:
    assert list(ephemeral_volumes(pod(SCRATCH, DATA, BARE))) == [SCRATCH, BARE]


@pytest.mark.parametrize(
    ("owners", "owns"),
    [
        ((OWNER,), True),
        (None, False),
        ((OwnerReference(name="web", uid="former", controller=True),), False),
        ((OwnerReference(kind="Pod", name="web", uid="pod"),), False),
    ],
)
def test_a_claim_is_the_pods_only_if_the_pod_controls_it(
    owners: tuple[OwnerReference, ...] | None, *, owns: bool
) -> None:
    metadata = PartialMetadata(name="c", namespace="ns", owner_references=owners)
    problem = "PVC ns/c was not created for pod ns/web (pod is not owner)"
    found = conflict(pod(SCRATCH), PartialObject(metadata=metadata))
    assert found == ("" if owns else problem)
