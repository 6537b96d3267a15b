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
from controller_manager.api.json_objects import JSON
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
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.responses import refusal
from tests.controllers.storage.objects import SIZE, Storage, ephemeral, owned_by

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("ephemeral-volume",))
CONFINED = make_config(
    controllers=("ephemeral-volume",), use_service_account_credentials=True
)
POST = "/api/v1/namespaces/default/persistentvolumeclaims"


def labelled(name: str) -> JSON:
    volume = ephemeral(name)
    template = volume["ephemeral"]["volumeClaimTemplate"]
    template["metadata"] = {"labels": {"of": "web"}}
    return volume


def add_pod(cluster: Storage, *volumes: str) -> str:
    return cluster.pod("web", volumes=[labelled(each) for each in volumes])


def add_claim(cluster: Storage, owner: str = "") -> None:
    """Create the claim "web-scratch", controlled by the pod of that uid, if any."""
    cluster.claim("web-scratch", metadata=owned_by("web", owner) if owner else {})


async def owners(cluster: Storage) -> dict[str, list[str]]:
    await asyncio.sleep(1)
    found = [each["metadata"] for each in cluster.all(CLAIMS)]
    return {
        each["name"]: [one["uid"] for one in each.get("ownerReferences", ())]
        for each in found
    }


def failed(problem: str) -> str:
    return (
        f"web Warning FailedBinding [ephemeral_volume]: ephemeral volume scratch: "
        f"{problem}"
    )


NOT_OWNER = failed(
    "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
)


def lose_claim(cluster: Storage) -> None:
    """Delete the claim "web-scratch" although it is protected."""
    cluster.remove(CLAIMS, "web-scratch")
    cluster.edit(CLAIMS, "web-scratch", metadata={"finalizers": None})


async def test_a_pod_gets_a_claim_for_each_ephemeral_volume() -> None:
    """In the order of the volumes; the role of upstream suffices."""
    cluster = Storage(rbac=True)
    async with cluster.confined_manager(CONFINED) as recording:
        uid = add_pod(cluster, "scratch", "cache")
        assert await owners(cluster) == {"web-scratch": [uid], "web-cache": [uid]}
    assert [each.path for each in recording.writes] == [POST, POST]
    (owner,) = owned_by("web", uid)["ownerReferences"]
    assert msgspec.json.decode(recording.writes[0].body) == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "web-scratch",
            "namespace": "default",
            "labels": {"of": "web"},
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": SIZE},
            "volumeMode": "Filesystem",  # a default of the API server
        },
    }


async def test_a_deleted_claim_is_created_again(cluster: Storage) -> None:
    async with cluster.manager(CONFIG) as recording:
        uid = add_pod(cluster, "scratch")
        assert await owners(cluster) == {"web-scratch": [uid]}
        lose_claim(cluster)
        assert await owners(cluster) == {"web-scratch": [uid]}
        cluster.edit(PODS, "web", metadata={"finalizers": ["example.com/hold"]})
        cluster.remove(PODS, "web")
        lose_claim(cluster)
        assert await owners(cluster) == {}
    assert len(recording.writes) == 2


@pytest.mark.parametrize("owner", ["", "former"])
async def test_a_foreign_claim_stays(cluster: Storage, owner: str) -> None:
    add_claim(cluster, owner)
    async with cluster.manager(CONFIG) as recording:
        uid = add_pod(cluster, "scratch")
        assert await owners(cluster) == {"web-scratch": [owner] if owner else []}
        await asyncio.sleep(1)
        assert cluster.told() == [NOT_OWNER]
        assert recording.writes == []
        lose_claim(cluster)
        assert await owners(cluster) == {"web-scratch": [uid]}


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_foreign_claim_conflicts(cluster: Storage, *, is_own: bool) -> None:
    """The cache lacks it; of its own, upstream says in an event that it exists."""
    uid = add_pod(cluster, "scratch") if is_own else ""
    unseen = Before(cluster, "POST", POST, lambda: add_claim(cluster, uid))
    if not is_own:
        add_pod(cluster, "scratch")
    async with cluster.manager(CONFIG, unseen):
        assert await owners(cluster) == {"web-scratch": [uid] if is_own else []}
        await asyncio.sleep(1)
    assert cluster.told() == ([] if is_own else [NOT_OWNER])


async def test_a_refused_claim_is_retried_and_counted(
    cluster: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first refusal ends the sync; the metrics are upstream's."""
    registry = CollectorRegistry()
    metrics = EphemeralVolumeMetrics(registry)
    monkeypatch.setattr(controller, "EphemeralVolumeMetrics", lambda _: metrics)
    uid = add_pod(cluster, "scratch", "cache")
    error = refusal(403, "Forbidden", "exceeded quota")
    async with cluster.manager(CONFIG, Before(cluster, "POST", POST, lambda: error)):
        assert await owners(cluster) == {"web-scratch": [uid], "web-cache": [uid]}
        await asyncio.sleep(1)
    assert cluster.told() == [failed("create PVC web-scratch: exceeded quota")]
    assert {
        name: registry.get_sample_value(f"ephemeral_volume_controller_{name}")
        for name in ("create_total", "create_failures_total")
    } == {"create_total": 3.0, "create_failures_total": 1.0}


async def test_a_deleted_namespace_gets_no_claims(cluster: Storage) -> None:
    """Its pods are deleted, too; neither an event nor a retry would help."""
    cluster.add_namespace("old")
    containers = [{"name": "c", "image": "app:v1"}]
    spec = {"containers": containers, "volumes": [ephemeral("scratch")]}
    cluster.put(PODS, "web", "old", spec=spec)
    cluster.remove(NAMESPACES, "old")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(3600)
        assert cluster.told() == []
    assert [each.status for each in recording.writes] == [403]


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
