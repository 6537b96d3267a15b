"""Pods get claims for their ephemeral volumes, in memory and on virtual time."""

import asyncio

import msgspec
import pytest
from msgspec import Raw
from prometheus_client import CollectorRegistry

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import (
    EVENTS,
    NAMESPACES,
    PODS,
    ClaimTemplate,
    EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource,
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
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.storage.ephemeralvolume import controller
from controller_manager.controllers.storage.ephemeralvolume.controller import (
    EphemeralVolumeMetrics,
    claim_of,
    conflict,
    ephemeral_volumes,
    needs_claims,
)
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config

CONFIG = make_config(controllers=("ephemeral-volume",))
CONFINED = make_config(
    controllers=("ephemeral-volume",), use_service_account_credentials=True
)
POST = "/api/v1/namespaces/default/persistentvolumeclaims"


def pod_json(name: str, *volumes: str) -> JSON:
    """Return a pod with these ephemeral volumes."""
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    template = {"metadata": {"labels": {"of": name}}, "spec": spec}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "volumes": [
                {"name": each, "ephemeral": {"volumeClaimTemplate": template}}
                for each in volumes
            ],
        },
    }


def create(cluster: Cluster, kind_name: str, obj: JSON) -> JSON:
    """Create an object in "default"."""
    kind = cluster.server.catalogue.of("v1", kind_name)
    assert kind is not None
    return cluster.server.objects.create(kind, "default", obj).obj


def add_pod(cluster: Cluster, *volumes: str, name: str = "web") -> str:
    """Create a pod with ephemeral volumes; return its uid."""
    pod = create(cluster, "Pod", pod_json(name, *volumes))
    return str(pod["metadata"]["uid"])


def add_claim(cluster: Cluster, owner: str = "") -> None:
    """Create the claim "web-scratch", controlled by the pod of that uid, if any."""
    (volume,) = pod_json("web", "scratch")["spec"]["volumes"]
    metadata: JSON = {"name": "web-scratch"}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    template = volume["ephemeral"]["volumeClaimTemplate"]
    create(cluster, "PersistentVolumeClaim", {**template, "metadata": metadata})


async def owners(cluster: Cluster) -> dict[str, list[str]]:
    """Return the uids of the owners of all claims."""
    await asyncio.sleep(1)
    page = await cluster.client.list_page(CLAIMS)
    return {
        each.metadata.name: [one.uid for one in each.metadata.owner_references or ()]
        for each in page.items
    }


async def events(cluster: Cluster) -> list[tuple[str, str, str, str]]:
    """Return the events: source, type, reason, message."""
    await asyncio.sleep(1)
    page = await cluster.client.list_page(EVENTS)
    return [
        (each.source.component, each.type, each.reason, each.message)
        for each in page.items
        if each.source is not None
    ]


def failed(problem: str) -> tuple[str, str, str, str]:
    """Return the event of the volume "scratch"."""
    message = f"ephemeral volume scratch: {problem}"
    return ("ephemeral_volume", "Warning", "FailedBinding", message)


async def lose_claim(cluster: Cluster) -> None:
    """Delete the claim "web-scratch" although it is protected."""
    place = (CLAIMS, "default", "web-scratch")
    await cluster.client.delete(*place)
    patch = {"metadata": {"finalizers": None}}
    await cluster.client.patch(*place, patch, PatchType.MERGE)


@pytest.mark.looptime
async def test_a_pod_gets_a_claim_for_each_ephemeral_volume() -> None:
    """In the order of the volumes; the role of upstream suffices."""
    cluster = Cluster(rbac=True)
    async with cluster.confined_manager(CONFINED) as recording:
        uid = add_pod(cluster, "scratch", "cache")
        made = await owners(cluster)
    assert made == {"web-scratch": [uid], "web-cache": [uid]}
    assert [each.path for each in recording.writes] == [POST, POST]
    assert msgspec.json.decode(recording.writes[0].body) == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "web-scratch",
            "namespace": "default",
            "labels": {"of": "web"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "web",
                    "uid": uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem",  # a default of the API server
        },
    }


@pytest.mark.looptime
async def test_a_deleted_claim_is_created_again(cluster: Cluster) -> None:
    """It is not created again while its pod is being deleted."""
    async with cluster.manager(CONFIG) as recording:
        uid = add_pod(cluster, "scratch")
        first = await owners(cluster)
        await lose_claim(cluster)
        second = await owners(cluster)
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await cluster.client.patch(PODS, "default", "web", hold, PatchType.MERGE)
        now = DeleteOptions(grace_period_seconds=0)
        await cluster.client.delete(PODS, "default", "web", now)
        await lose_claim(cluster)
        third = await owners(cluster)
    assert first == second == {"web-scratch": [uid]}
    assert third == {}
    assert len(recording.writes) == 2


@pytest.mark.looptime
@pytest.mark.parametrize("owner", ["", "former"])
async def test_a_claim_of_another_owner_is_not_changed(
    cluster: Cluster, owner: str
) -> None:
    """When it is gone, the pod gets its own claim at once."""
    add_claim(cluster, owner)
    async with cluster.manager(CONFIG) as recording:
        uid = add_pod(cluster, "scratch")
        assert await owners(cluster) == {"web-scratch": [owner] if owner else []}
        assert await events(cluster) == [
            failed(
                "PVC default/web-scratch was not created for pod default/web "
                "(pod is not owner)"
            )
        ]
        assert recording.writes == []
        await lose_claim(cluster)
        assert await owners(cluster) == {"web-scratch": [uid]}


class Unseen(RecordingTransport):
    """Creates the claim right before the manager does."""

    def __init__(self, cluster: Cluster, owner: str) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._cluster = cluster
        self._owner = owner
        self._has_created = False

    async def request(self, request: Request) -> Response:
        if request.method == "POST" and request.path == POST and not self._has_created:
            self._has_created = True
            add_claim(self._cluster, self._owner)
        return await super().request(request)


@pytest.mark.looptime
async def test_its_own_claim_that_the_cache_does_not_show_is_no_conflict(
    cluster: Cluster,
) -> None:
    """Upstream says in an event that it already exists."""
    uid = add_pod(cluster, "scratch")
    async with cluster.manager(CONFIG, Unseen(cluster, uid)):
        made = await owners(cluster)
        told = await events(cluster)
    assert (made, told) == ({"web-scratch": [uid]}, [])


@pytest.mark.looptime
async def test_a_claim_of_another_owner_that_the_cache_lacks_is_a_conflict(
    cluster: Cluster,
) -> None:
    """The event names the pod that does not own the claim."""
    add_pod(cluster, "scratch")
    async with cluster.manager(CONFIG, Unseen(cluster, "")):
        made = await owners(cluster)
        told = await events(cluster)
    assert made == {"web-scratch": []}
    assert set(told) == {
        failed(
            "PVC default/web-scratch was not created for pod default/web "
            "(pod is not owner)"
        )
    }


class Refusing(RecordingTransport):
    """Answers the first requests for a claim with a quota's refusal."""

    def __init__(self, cluster: Cluster, times: int) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self.left = times

    async def request(self, request: Request) -> Response:
        if request.method == "POST" and request.path == POST and self.left:
            self.left -= 1
            status = {
                "status": "Failure",
                "code": 403,
                "reason": "Forbidden",
                "message": "exceeded quota",
            }
            return Response(403, {}, msgspec.json.encode(status))
        return await super().request(request)


@pytest.mark.looptime
async def test_a_refused_claim_is_retried_and_counted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first refusal ends the sync; the metrics are upstream's."""
    registry = CollectorRegistry()
    metrics = EphemeralVolumeMetrics(registry)
    monkeypatch.setattr(controller, "EphemeralVolumeMetrics", lambda _: metrics)
    uid = add_pod(cluster, "scratch", "cache")
    async with cluster.manager(CONFIG, Refusing(cluster, 1)):
        made = await owners(cluster)
        told = await events(cluster)
    assert made == {"web-scratch": [uid], "web-cache": [uid]}
    assert told == [failed("create PVC web-scratch: exceeded quota")]
    assert {
        name: registry.get_sample_value(f"ephemeral_volume_controller_{name}")
        for name in ("create_total", "create_failures_total")
    } == {"create_total": 3.0, "create_failures_total": 1.0}


@pytest.mark.looptime
async def test_a_namespace_that_is_being_deleted_gets_no_claims(
    cluster: Cluster,
) -> None:
    """Its pods are deleted, too; neither an event nor a retry would help."""
    cluster.add_namespace("old")
    pod = pod_json("web", "scratch")
    kind = cluster.server.catalogue.of("v1", "Pod")
    assert kind is not None
    cluster.server.objects.create(kind, "old", pod)
    await cluster.client.delete(NAMESPACES, "", "old")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(3600)
        assert await events(cluster) == []
    assert [each.status for each in recording.writes] == [403]


SPEC = Raw(b'{"accessModes":["ReadWriteOnce"]}')
TEMPLATE = ClaimTemplate(
    metadata=ObjectMeta(labels={"x": "y"}, annotations={"a": "b"}), spec=SPEC
)
SCRATCH = PodVolume(
    name="scratch", ephemeral=EphemeralVolumeSource(volume_claim_template=TEMPLATE)
)
BARE = PodVolume(name="bare", ephemeral=EphemeralVolumeSource())
DATA = PodVolume(
    name="data",
    persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="claim"),
)
OWNER = OwnerReference(
    api_version="v1",
    kind="Pod",
    name="web",
    uid="pod",
    controller=True,
    block_owner_deletion=True,
)


def pod(*volumes: PodVolume, deleted: str | None = None) -> Pod:
    """Return the pod "web" with these volumes."""
    metadata = PodMeta(
        name="web", namespace="ns", uid="pod", deletion_timestamp=deleted
    )
    return Pod(metadata=metadata, spec=PodSpec(volumes=volumes or None))


def test_a_claim_is_made_from_the_template_and_owned_by_the_pod() -> None:
    """Its labels, annotations and spec are the template's."""
    metadata = ObjectMeta(
        name="web-scratch",
        namespace="ns",
        labels={"x": "y"},
        annotations={"a": "b"},
        owner_references=(OWNER,),
    )
    expected = PersistentVolumeClaim(metadata=metadata, raw_spec=SPEC)
    assert claim_of(pod(SCRATCH), SCRATCH) == expected


def test_a_volume_without_a_template_makes_an_empty_claim() -> None:
    """The API server refuses such pods, and would refuse the claim."""
    metadata = ObjectMeta(name="web-bare", namespace="ns", owner_references=(OWNER,))
    expected = PersistentVolumeClaim(metadata=metadata)
    assert claim_of(pod(BARE), BARE) == expected


@pytest.mark.parametrize(
    ("of", "is_needed"),
    [
        (pod(), False),
        (pod(DATA), False),
        (pod(DATA, SCRATCH), True),
        (pod(SCRATCH, deleted="2026-01-01T00:00:00Z"), False),
    ],
)
def test_only_pods_with_ephemeral_volumes_need_claims(
    of: Pod, *, is_needed: bool
) -> None:
    """Pods that are being deleted need none."""
    assert needs_claims(of) is is_needed


def test_claims_are_made_for_ephemeral_volumes_only() -> None:
    """The claims have the order of the volumes."""
    assert list(ephemeral_volumes(pod(SCRATCH, DATA, BARE))) == [SCRATCH, BARE]


@pytest.mark.parametrize(
    ("owners", "problem"),
    [
        ((OWNER,), ""),
        (None, "PVC ns/c was not created for pod ns/web (pod is not owner)"),
        (
            (OwnerReference(kind="Pod", name="web", uid="former", controller=True),),
            "PVC ns/c was not created for pod ns/web (pod is not owner)",
        ),
        (
            (OwnerReference(kind="Pod", name="web", uid="pod"),),
            "PVC ns/c was not created for pod ns/web (pod is not owner)",
        ),
    ],
)
def test_a_claim_is_the_pods_only_if_the_pod_controls_it(
    owners: tuple[OwnerReference, ...] | None, problem: str
) -> None:
    """An earlier pod of the same name is another pod."""
    metadata = PartialMetadata(name="c", namespace="ns", owner_references=owners)
    assert conflict(pod(SCRATCH), PartialObject(metadata=metadata)) == problem
