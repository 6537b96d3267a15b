"""Pods are warned that share a volume, on a cluster in memory and virtual time."""

import asyncio
from typing import Any, Final

import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import CSI_DRIVERS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import DeleteOptions, PatchType
from tests.clusters import ROOT_CA, Cluster, make_config, run_manager
from tests.controllers.storage.selinuxwarning.objects import (
    CONFIG,
    DRIVER,
    X,
    Y,
    add_claim,
    add_driver,
    add_pod,
    pod_spec,
)

pytestmark = pytest.mark.looptime

LABELS = {
    ("p", "SELinuxLabelConflict", "Normal"),
    ("q", "SELinuxLabelConflict", "Normal"),
}
POLICIES = {
    ("p", "SELinuxChangePolicyConflict", "Normal"),
    ("q", "SELinuxChangePolicyConflict", "Normal"),
}


async def told(cluster: Cluster) -> set[tuple[str, str, str]]:
    """Return the pod, the reason and the type of each event."""
    page = await cluster.client.list_page(EVENTS)
    assert {each.source.component for each in page.items} <= {"selinux_warning"}
    return {(each.involved_object.name, each.reason, each.type) for each in page.items}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pod_spec(X), pod_spec(Y), LABELS),
        (pod_spec(X), pod_spec(X), set()),
        (pod_spec(X), pod_spec(X, "Recursive"), POLICIES | LABELS),
        (pod_spec(X), pod_spec(), POLICIES | LABELS),
        (pod_spec({"type": "t"}), pod_spec(), POLICIES),
        (pod_spec(X, "Recursive"), pod_spec(Y, "Recursive"), set()),
        (pod_spec(X), pod_spec(Y, claim="other"), set()),
        (pod_spec(X), pod_spec(Y, claim="missing"), set()),
    ],
)
async def test_two_pods_with_one_volume(
    one: dict[str, Any], other: dict[str, Any], expected: set[tuple[str, str, str]]
) -> None:
    """The controller has only its role; it writes only events."""
    cluster = Cluster(rbac=True)
    add_driver(cluster)
    add_claim(cluster)
    add_claim(cluster, "other", "w")
    async with cluster.confined_manager(CONFIG) as recording:
        add_pod(cluster, "p", one)
        add_pod(cluster, "q", other)
        await asyncio.sleep(1)
        assert await told(cluster) == expected
    assert all("/events" in each.path for each in recording.writes)


async def test_it_does_not_run_by_default() -> None:
    """As upstream's, it must be named in --controllers."""
    cluster = Cluster()
    add_driver(cluster)
    add_claim(cluster)
    add_pod(cluster, "p", pod_spec(X))
    add_pod(cluster, "q", pod_spec(Y))
    async with cluster.manager(make_config(controllers=("*",))):
        await asyncio.sleep(1)
        page = await cluster.client.list_page(EVENTS)
        components = {each.source.component for each in page.items}
    assert "selinux_warning" not in components


async def test_a_driver_begins_to_mount_labels() -> None:
    """Its pods are synced again, and once more when the driver is gone."""
    cluster = Cluster()
    add_driver(cluster, mounts=False)
    add_claim(cluster)
    add_pod(cluster, "p", pod_spec(X))
    add_pod(cluster, "q", pod_spec(Y))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        assert await told(cluster) == set()
        patch = {"spec": {"seLinuxMount": True}}
        await cluster.client.patch(CSI_DRIVERS, "", DRIVER, patch, PatchType.MERGE)
        await asyncio.sleep(1)
        assert await told(cluster) >= LABELS
        await cluster.client.delete(CSI_DRIVERS, "", DRIVER)
        await asyncio.sleep(1)
        add_pod(cluster, "r", pod_spec(Y))
        await asyncio.sleep(1)
        assert "r" not in {name for name, _, _ in await told(cluster)}


async def test_a_claim_that_is_bound_later_counts_from_then_on() -> None:
    """Upstream retries until then."""
    cluster = Cluster()
    add_driver(cluster)
    async with cluster.manager(CONFIG):
        add_pod(cluster, "p", pod_spec(X))
        add_pod(cluster, "q", pod_spec(Y))
        await asyncio.sleep(60)
        assert await told(cluster) == set()
        add_claim(cluster)
        await asyncio.sleep(1)
        assert await told(cluster) == LABELS
        claim = await cluster.client.get(CLAIMS, "default", "data")
    assert claim.status.phase == "Bound"


async def test_a_pod_that_has_ended_or_is_gone_does_not_count() -> None:
    """Its kubelet unmounts the volume."""
    cluster = Cluster()
    add_driver(cluster)
    add_claim(cluster)
    async with cluster.manager(CONFIG):
        for name in ("p", "q"):
            add_pod(cluster, name, pod_spec(X))
        await asyncio.sleep(1)
        ended = {"status": {"phase": "Succeeded"}}
        await cluster.client.patch(PODS, "default", "p", ended, subresource="status")
        options = DeleteOptions(grace_period_seconds=0)
        await cluster.client.delete(PODS, "default", "q", options)
        await asyncio.sleep(1)
        add_pod(cluster, "r", pod_spec(Y))
        await asyncio.sleep(1)
        assert await told(cluster) == set()


async def test_a_pod_that_mounts_a_volume_twice_is_told_so() -> None:
    """The two mounts have different labels; its other volumes are still compared."""
    cluster = Cluster()
    add_driver(cluster)
    add_claim(cluster)
    spec = pod_spec(X)
    second = {**spec["containers"][0], "name": "d"}
    second["securityContext"] = {"seLinuxOptions": Y}
    spec["containers"].append(second)
    add_pod(cluster, "p", spec)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(60)
        page = await cluster.client.list_page(EVENTS)
    (event,) = page.items
    assert (event.type, event.reason, event.count) == (
        "Warning",
        "MultipleSELinuxLabels",
        1,
    )
    assert event.message == (
        'Volume "data" is mounted twice with different SELinux labels inside this pod'
    )


OTHER_SOURCES: Final[tuple[JSON, ...]] = (
    {"emptyDir": {}},
    {"configMap": {"name": "settings"}},
    {"secret": {"secretName": "keys"}},
    {"projected": {"sources": []}},
    {"hostPath": {"path": "/srv"}},
    {"nfs": {"server": "store", "path": "/"}},
    {"csi": {"driver": DRIVER}},
    {"fc": {"wwids": ["w"]}},
)


@pytest.mark.parametrize("source", OTHER_SOURCES, ids=lambda it: next(iter(it)))
@pytest.mark.parametrize("debugs", [False, True], ids=["container", "debugging"])
async def test_a_pod_is_told_of_two_labels_of_a_volume_of_any_kind(
    source: dict[str, Any], *, debugs: bool
) -> None:
    """A volume that no other pod can have counts, too."""
    cluster = Cluster()
    add_driver(cluster)
    spec = pod_spec(X)
    second = {**spec["containers"][0], "name": "d"}
    second["securityContext"] = {"seLinuxOptions": Y}
    spec["ephemeralContainers" if debugs else "initContainers"] = [second]
    spec["volumes"] = [{"name": "data", **source}]
    add_pod(cluster, "p", spec)
    add_pod(cluster, "q", {**pod_spec(X), "volumes": spec["volumes"]})
    async with cluster.manager(CONFIG):
        await asyncio.sleep(60)
        page = await cluster.client.list_page(EVENTS)
    message = (
        'Volume "data" is mounted twice with different SELinux labels inside this pod'
    )
    assert [
        (each.involved_object.name, each.reason, each.message, each.count)
        for each in page.items
    ] == [("p", "MultipleSELinuxLabels", message, 1)]


async def test_two_labels_of_a_claim_are_told_once_it_is_bound() -> None:
    """Until then its volume is not known; upstream retries."""
    cluster = Cluster()
    spec = pod_spec(X)
    second = {**spec["containers"][0], "name": "d"}
    second["securityContext"] = {"seLinuxOptions": Y}
    spec["containers"].append(second)
    add_pod(cluster, "p", spec)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(60)
        assert await told(cluster) == set()
        add_claim(cluster)
        await asyncio.sleep(1)
        assert await told(cluster) == {("p", "MultipleSELinuxLabels", "Warning")}


FC: Final[JSON] = {"fc": {"targetWWNs": ["a", "b"], "lun": 0}}
DISKS: Final[tuple[tuple[JSON, JSON, set[tuple[str, str, str]]], ...]] = (
    (FC, FC, LABELS),
    (FC, {"fc": {"targetWWNs": ["a", "b"], "lun": 1}}, set()),
    ({"fc": {"wwids": ["w"]}}, {"fc": {"wwids": ["w"]}}, LABELS),
    ({"fc": {"targetWWNs": ["a"]}}, {"fc": {"targetWWNs": ["a"]}}, set()),
    (
        {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2020-01.a:b", "lun": 3}},
        {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2020-01.a:b", "lun": 3}},
        LABELS,
    ),
    (
        {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2020-01.a:b", "lun": 3}},
        {"iscsi": {"targetPortal": "10.0.0.2", "iqn": "iqn.2020-01.a:b", "lun": 3}},
        set(),
    ),
    (
        {"nfs": {"server": "s", "path": "/"}},
        {"nfs": {"server": "s", "path": "/"}},
        set(),
    ),
    ({"hostPath": {"path": "/srv"}}, {"hostPath": {"path": "/srv"}}, set()),
)


@pytest.mark.parametrize(("one", "other", "expected"), DISKS)
@pytest.mark.parametrize("claimed", [False, True], ids=["inline", "claimed"])
async def test_disks_that_the_kubelet_mounts_itself_are_compared(
    one: dict[str, Any],
    other: dict[str, Any],
    expected: set[tuple[str, str, str]],
    *,
    claimed: bool,
) -> None:
    """Of the plugins in the kubelet, those for FC and iSCSI mount with a label."""
    cluster = Cluster()
    add_pod(cluster, "p", {**pod_spec(X), "volumes": [{"name": "data", **one}]})
    second = pod_spec(Y)
    if claimed:
        add_claim(cluster, source=other)
    else:
        second["volumes"] = [{"name": "data", **other}]
    add_pod(cluster, "q", second)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        assert await told(cluster) == expected


async def test_the_metric_has_each_conflict_twice() -> None:
    """There is one sample for each of the two pods, while both exist."""
    cluster = Cluster()
    add_driver(cluster)
    add_claim(cluster)
    add_pod(cluster, "p", pod_spec(X))
    add_pod(cluster, "q", pod_spec(Y))
    connections = Connections(cluster.transport, root_ca=ROOT_CA)
    async with run_manager(connections, cluster.clock, cluster.rng, CONFIG) as manager:
        await asyncio.sleep(1)
        x, y = ":::s0:c1,c2", ":::s0:c98,c99"
        assert sorted(sample(manager)) == [
            ("SELinuxLabel", "default", "p", x, "default", "q", y),
            ("SELinuxLabel", "default", "q", y, "default", "p", x),
        ]
        await cluster.client.delete(PODS, "default", "q", DeleteOptions(0))
        await asyncio.sleep(1)
        assert sample(manager) == []


def sample(manager: Any) -> list[tuple[str, ...]]:
    """Return the labels of each sample; its value is 1."""
    name = "selinux_warning_controller_selinux_volume_conflict"
    found = [
        (tuple(each.labels.values()), each.value)
        for family in manager._registry.collect()
        for each in family.samples
        if each.name == name
    ]
    assert {value for _, value in found} <= {1.0}
    return [labels for labels, _ in found]


async def test_a_volume_of_a_replaced_plugin_counts_as_its_drivers() -> None:
    """So does a volume that pods define themselves."""
    cluster = Cluster()
    add_driver(cluster, "ebs.csi.aws.com")
    source = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    for name, options in (("p", X), ("q", Y)):
        spec = {**pod_spec(options), "volumes": [{"name": "data", **source}]}
        add_pod(cluster, name, spec)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        assert await told(cluster) == LABELS


async def test_the_claim_of_an_ephemeral_volume_must_be_the_pods_own() -> None:
    """The pod will not get a claim of that name with another owner."""
    cluster = Cluster()
    add_driver(cluster)
    template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    scratch = {"name": "data", "ephemeral": {"volumeClaimTemplate": template}}
    add_pod(cluster, "p", {**pod_spec(X), "volumes": [scratch]})
    add_pod(cluster, "q", {**pod_spec(Y, claim="p-data")})
    pod = await cluster.client.get(PODS, "default", "p")
    async with cluster.manager(CONFIG):
        add_claim(cluster, "p-data")
        await asyncio.sleep(1)
        assert await told(cluster) == set()
        patch = {
            "metadata": {
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": "p",
                        "uid": pod.metadata.uid,
                        "controller": True,
                    }
                ]
            }
        }
        await cluster.client.patch(CLAIMS, "default", "p-data", patch, PatchType.MERGE)
        await asyncio.sleep(1)
        assert await told(cluster) == LABELS


async def test_a_pod_that_comes_back_under_its_name_is_told_again(
    cluster: Cluster,
) -> None:
    """The watch may show the deletion and the new pod together."""
    add_driver(cluster)
    add_claim(cluster)
    async with cluster.manager(CONFIG):
        add_pod(cluster, "p", pod_spec(X))
        add_pod(cluster, "q", pod_spec(Y))
        await asyncio.sleep(1)
        kind = cluster.server.catalogue.of("v1", "Pod")
        assert kind is not None
        pods = cluster.server.storage.collection(kind.resource)
        pods.remove(("default", "p"))
        add_pod(cluster, "p", pod_spec(X))  # in the same turn of the event loop
        await asyncio.sleep(1)
    page = await cluster.client.list_page(EVENTS)
    told_pods = {each.involved_object.uid for each in page.items}
    left = await cluster.client.list_page(PODS)
    present = {each.metadata.uid for each in left.items}
    assert len(present) == 2
    assert told_pods > present
