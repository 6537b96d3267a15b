"""Claims and volumes are bound on a cluster in memory, on virtual time."""

import asyncio
from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.api.storage.v1 import STORAGE_CLASSES
from controller_manager.client.rest.transport import Response
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.responses import refusal
from tests.controllers.storage.objects import Storage

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(controllers=("persistentvolume-binder",))
PERIOD: Final = VolumeBinderOptions().sync_period
WAITS: Final = {"volumeBindingMode": "WaitForFirstConsumer"}
COMPLETED: Final = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


def add_volume(cluster: Storage, name: str, **spec: Any) -> None:
    """Add a volume of a class that does not exist: none is provisioned."""
    cluster.volume(name, **{"storageClassName": "by-hand", **spec})


def add_claim(
    cluster: Storage, name: str = "data", metadata: JSON | None = None, **spec: Any
) -> None:
    fields = {"storageClassName": "by-hand", **spec}
    cluster.claim(name, metadata=metadata, **fields)


def add_class(
    cluster: Storage, name: str = "by-hand", is_default: str = "", **fields: str
) -> None:
    """Add a storage class with an external provisioner."""
    marks = {"storageclass.kubernetes.io/is-default-class": is_default}
    body = {"provisioner": "csi.example.com", "volumeBindingMode": "Immediate"}
    metadata = {"annotations": marks} if is_default else {}
    cluster.put(STORAGE_CLASSES, name, metadata=metadata, **{**body, **fields})


async def bindings(cluster: Storage) -> dict[str, tuple[str, str]]:
    """Return the phase and the volume of each claim, a second later."""
    await asyncio.sleep(1)
    return {
        each["metadata"]["name"]: (
            each["status"]["phase"],
            each["spec"].get("volumeName", ""),
        )
        for each in cluster.all(CLAIMS)
    }


async def phases(cluster: Storage) -> dict[str, str]:
    """Return the phase of each volume, a second later."""
    await asyncio.sleep(1)
    found = cluster.all(PERSISTENT_VOLUMES)
    return {each["metadata"]["name"]: each["status"]["phase"] for each in found}


def told(cluster: Storage) -> list[str]:
    """Return object, type and reason of each event, and how often it was told."""
    events = [each.split() for each in cluster.told(counted=True)]
    return [" ".join((*each[:3], each[-1])) for each in events]


def lose(cluster: Storage, resource: AnyResource, name: str) -> None:
    """Delete an object although it is protected."""
    cluster.edit(resource, name, metadata={"finalizers": None})
    cluster.remove(resource, name)


async def test_its_role_is_enough_for_its_work() -> None:
    """Claims are bound, provisioned, given a class and lost; volumes are released."""
    cluster = Storage(rbac=True)
    config = make_config(
        controllers=("persistentvolume-binder",), use_service_account_credentials=True
    )
    add_volume(cluster, "v")
    add_claim(cluster)
    add_claim(cluster, "asks-for-one", storageClassName="made")
    add_claim(cluster, "without", storageClassName=None)
    async with cluster.confined_manager(config) as recording:
        assert (await bindings(cluster))["data"] == ("Bound", "v")
        add_class(cluster, "made")
        add_class(cluster, "std", "true")
        await asyncio.sleep(PERIOD)
        lose(cluster, CLAIMS, "data")
        assert await phases(cluster) == {"v": "Released"}
    assert {each.status for each in recording.writes} == {200}


async def test_each_volume_that_becomes_available_is_offered_to_a_claim(
    cluster: Storage,
) -> None:
    """The claim gets the volume at once; upstream waits for the sync period."""
    add_claim(cluster, "large", resources={"requests": {"storage": "9Gi"}})
    add_claim(cluster, "labelled", selector={"matchLabels": {"a": "b"}})
    for number in range(5):
        add_claim(cluster, f"c-{number}")
    async with cluster.manager(CONFIG):
        assert {phase for phase, _ in (await bindings(cluster)).values()} == {"Pending"}
        for number in range(4):
            add_volume(cluster, f"v-{number}")
        found = await bindings(cluster)
    bound = sorted(name for name, (phase, _) in found.items() if phase == "Bound")
    assert bound == ["c-0", "c-1", "c-2", "c-3"]


async def test_volumes_that_the_scheduler_gives_away_are_offered_to_no_claim(
    cluster: Storage,
) -> None:
    """Their class waits for the first consumer, so no claim is synced in vain."""
    add_class(cluster, **WAITS)
    add_claim(cluster)
    async with cluster.manager(CONFIG):
        await bindings(cluster)
        add_volume(cluster, "v")
        assert await bindings(cluster) == {"data": ("Pending", "")}
    assert told(cluster) == ["data Normal WaitForFirstConsumer x1"]


async def test_a_claim_gets_the_volume_that_it_names_as_soon_as_it_is_there(
    cluster: Storage,
) -> None:
    """Upstream waits for the sync period. Without the volume the claim is Lost."""
    add_claim(cluster, volumeName="v")
    async with cluster.manager(CONFIG):
        assert await bindings(cluster) == {"data": ("Pending", "v")}
        add_volume(cluster, "v")
        assert await bindings(cluster) == {"data": ("Bound", "v")}
        lose(cluster, PERSISTENT_VOLUMES, "v")
        assert await bindings(cluster) == {"data": ("Lost", "v")}
    assert told(cluster) == ["data Warning ClaimLost x1"]


async def test_a_volume_that_refers_to_a_claim_which_is_gone_is_released_at_once(
    cluster: Storage,
) -> None:
    """The claim may never have named the volume."""
    add_claim(cluster)
    async with cluster.manager(CONFIG):
        add_volume(cluster, "v", volumeMode="Block", claimRef=cluster.reference())
        assert await phases(cluster) == {"v": "Pending"}
        lose(cluster, CLAIMS, "data")
        assert await phases(cluster) == {"v": "Released"}
    assert [each.rpartition(" x")[0] for each in told(cluster)] == [
        "data Warning ProvisioningFailed",
        "data Warning VolumeMismatch",
        "v Warning VolumeMismatch",
    ]


async def test_a_volume_is_unbound_when_its_claim_gets_another_one(
    cluster: Storage,
) -> None:
    """Two managers may each have chosen a volume. The claim keeps the one it names."""
    add_claim(cluster, volumeName="v")
    async with cluster.manager(CONFIG):
        add_volume(cluster, "w", claimRef=cluster.reference())
        add_volume(cluster, "v")
        assert await bindings(cluster) == {"data": ("Bound", "v")}
        assert await phases(cluster) == {"v": "Bound", "w": "Available"}
    assert "uid" not in cluster.stored(PERSISTENT_VOLUMES, "w")["spec"]["claimRef"]


async def test_a_claim_is_told_which_pod_it_waits_for(cluster: Storage) -> None:
    """Pods that have ended, or have a node, do not count."""
    add_class(cluster, **WAITS)
    add_volume(cluster, "v")
    add_claim(cluster)
    async with cluster.manager(CONFIG):
        assert await bindings(cluster) == {"data": ("Pending", "")}
        cluster.pod("done", "data")
        cluster.set_status("done", phase="Failed")
        cluster.pod("placed", "data", nodeName="n")
        cluster.pod("web", "data")
        await asyncio.sleep(PERIOD)
        cluster.remove(PODS, "web")
        await asyncio.sleep(PERIOD)
    by = "[persistentvolume-controller]"
    first = "waiting for first consumer to be created before binding"
    assert cluster.told(counted=True) == [
        f"data Normal WaitForFirstConsumer {by}: {first} x2",
        f"data Normal WaitForPodScheduled {by}: waiting for pod web to be scheduled x1",
    ]


async def test_the_newest_default_class_is_given(cluster: Storage) -> None:
    """As the API server's admission does; of two equally old ones the first by name."""
    for name, is_default in (("b", "true"), ("a", "true"), ("c", "false")):
        add_class(cluster, name, is_default)
    add_claim(cluster)
    stored = cluster.stored(CLAIMS, "data")
    del stored["spec"]["storageClassName"]  # no request may do so
    cluster.server.storage.collection(CLAIMS.plural).put(("default", "data"), stored)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
    assert cluster.stored(CLAIMS, "data")["spec"]["storageClassName"] == "a"


async def test_a_claim_that_only_the_api_server_shows_keeps_its_volume(
    cluster: Storage,
) -> None:
    """The cache may be older than the binding."""
    add_claim(cluster)
    add_volume(cluster, "v", claimRef=cluster.reference())
    version = cluster.server.storage.version
    body = f'{{"metadata": {{"resourceVersion": "{version}"}}}}'.encode()
    empty = Response(200, {}, body)
    blind = Before(cluster, "GET", "/persistentvolumeclaims", lambda: empty, 99)
    path = "/persistentvolumeclaims/data"
    reads = Before(cluster, "GET", path, lambda: None, inner=blind)
    config = replace(CONFIG, features=FeatureGates({"WatchListClient": False}))
    async with cluster.manager(config, reads):
        assert await phases(cluster) == {"v": "Pending"}
    assert reads.seen == 1


async def test_a_volume_that_gets_another_claim_while_the_former_is_read_is_kept(
    cluster: Storage,
) -> None:
    """The former claim is gone; the new claim may exist."""
    add_claim(cluster, "new", volumeName="v")
    new = cluster.reference("new")
    former = {**new, "name": "old", "uid": "gone"}
    add_volume(cluster, "v", claimRef=former, persistentVolumeReclaimPolicy="Delete")

    async def give_away() -> None:
        cluster.edit(PERSISTENT_VOLUMES, "v", spec={"claimRef": new})
        await asyncio.sleep(0.1)  # the watch shows it before the answer comes

    transport = Before(cluster, "GET", "/persistentvolumeclaims/old", give_away)
    async with cluster.manager(CONFIG, transport) as recording:
        assert await phases(cluster) == {"v": "Bound"}
        assert await bindings(cluster) == {"new": ("Bound", "v")}
    assert [each for each in recording.writes if b"Released" in each.body] == []


async def test_a_claim_that_changes_while_its_volume_is_read_is_not_lost(
    cluster: Storage,
) -> None:
    """A backup may restore a claim as bound before it restores the volume."""
    add_claim(cluster, metadata=COMPLETED, volumeName="first")

    async def restore() -> None:
        lose(cluster, CLAIMS, "data")
        add_claim(cluster, metadata=COMPLETED, volumeName="second")
        await asyncio.sleep(0.1)

    second = Before(cluster, "GET", "/persistentvolumes/second", lambda: None)
    first = Before(cluster, "GET", "/persistentvolumes/first", restore, inner=second)
    async with cluster.manager(CONFIG, first):
        await asyncio.sleep(0.05)
        assert (await bindings(cluster))["data"] == ("Lost", "second")
    assert second.seen == 1  # it was asked for before the claim was lost


async def test_a_volume_of_a_claim_with_an_invalid_name_is_released(
    cluster: Storage,
) -> None:
    """Users may write such a reference; no request has that name."""
    reference = {"namespace": "default", "name": "../data", "uid": "x", "kind": "x"}
    add_volume(cluster, "v", claimRef=reference)
    async with cluster.manager(CONFIG):
        assert await phases(cluster) == {"v": "Released"}


async def test_a_refused_write_is_tried_again(cluster: Storage) -> None:
    """The claim that needs a provisioner gets an event."""
    add_class(cluster)
    add_claim(cluster)
    error = refusal(500, "InternalError")
    refusing = Before(cluster, "PUT", "", lambda: error, 99)
    async with cluster.manager(CONFIG, refusing):
        await asyncio.sleep(1)
        refusing.times = 0
        await asyncio.sleep(130)
    waits, fails = [each.partition(": ")[::2] for each in cluster.told()]
    by = "[persistentvolume-controller]"
    assert fails == (f"data Warning ProvisioningFailed {by}", "Error saving claim: no")
    assert waits[0] == f"data Normal ExternalProvisioning {by}"
    assert waits[1].startswith("Waiting for a volume to be created either by the ext")


async def test_no_provisioner_is_asked_for_volumes_if_provisioning_is_off(
    cluster: Storage,
) -> None:
    """--enable-dynamic-provisioning=false; existing volumes are bound."""
    add_class(cluster)
    add_claim(cluster)
    options = VolumeBinderOptions(provisions=False)
    config = replace(CONFIG, controllers={VolumeBinderOptions: options})
    async with cluster.manager(config) as recording:
        assert await bindings(cluster) == {"data": ("Pending", "")}
        assert recording.writes == []
        add_volume(cluster, "v")
        await asyncio.sleep(PERIOD)
        assert await bindings(cluster) == {"data": ("Bound", "v")}
    assert told(cluster) == []


async def test_two_managers_give_no_volume_to_two_claims(cluster: Storage) -> None:
    """Each write carries the version of its decision; one of two writes is refused."""
    for number in range(20):
        add_volume(cluster, f"v-{number:02}")
        add_claim(cluster, f"c-{number:02}")
    async with cluster.manager(CONFIG), cluster.manager(CONFIG):
        await asyncio.sleep(PERIOD * 3)
        bound = await bindings(cluster)
    assert {phase for phase, _ in bound.values()} == {"Bound"}
    assert len({volume for _, volume in bound.values()}) == 20
    assert set((await phases(cluster)).values()) == {"Bound"}
