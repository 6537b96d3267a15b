"""Pods are warned that share a volume, on a cluster in memory and virtual time."""

import asyncio
from typing import Any, Final

import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import CSI_DRIVERS
from controller_manager.client.builder import Connections
from tests.clusters import ROOT_CA, make_config, run_manager
from tests.controllers.storage.objects import Storage, ephemeral, owned_by

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(
    controllers=("selinux-warning-controller",), use_service_account_credentials=True
)
DRIVER: Final = "csi.example.com"
X: Final = {"level": "s0:c1,c2"}
Y: Final = {"level": "s0:c98,c99"}
LABELS = {
    ("p", "SELinuxLabelConflict", "Normal"),
    ("q", "SELinuxLabelConflict", "Normal"),
}
POLICIES = {
    ("p", "SELinuxChangePolicyConflict", "Normal"),
    ("q", "SELinuxChangePolicyConflict", "Normal"),
}
TWICE = (
    "p Warning MultipleSELinuxLabels [selinux_warning]: "
    'Volume "data" is mounted twice with different SELinux labels inside this pod'
)


def add_driver(cluster: Storage, name: str = DRIVER, *, mounts: bool = True) -> None:
    cluster.put(CSI_DRIVERS, name, spec={"seLinuxMount": mounts})


def pod(
    options: JSON | None = None,
    policy: str = "",
    claim: str = "data",
    source: JSON | None = None,
) -> JSON:
    """Return the spec of a pod that mounts a claim, with a label and a policy."""
    context: JSON = {} if options is None else {"seLinuxOptions": options}
    if policy:
        context["seLinuxChangePolicy"] = policy
    mounts = [{"name": "data", "mountPath": "/data"}]
    source = source or {"persistentVolumeClaim": {"claimName": claim}}
    return {
        "securityContext": context,
        "containers": [{"name": "c", "image": "app:v1", "volumeMounts": mounts}],
        "volumes": [{"name": "data", **source}],
    }


def mounts_twice(kind: str = "containers", source: JSON | None = None) -> JSON:
    """Return the spec of a pod whose other container has another label."""
    spec = pod(X, source=source)
    second = {**spec["containers"][0], "name": "d"}
    second["securityContext"] = {"seLinuxOptions": Y}
    spec[kind] = [*spec.get(kind, ()), second]
    return spec


def add_pods(cluster: Storage, **specs: JSON) -> None:
    for name, spec in specs.items():
        cluster.pod(name, **spec)


async def told(cluster: Storage) -> set[tuple[str, str, str]]:
    await asyncio.sleep(1)
    found = cluster.all(EVENTS)
    assert {each["source"]["component"] for each in found} <= {"selinux_warning"}
    return {
        (each["involvedObject"]["name"], each["reason"], each["type"]) for each in found
    }


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (pod(X), pod(Y), LABELS),
        (pod(X), pod(X), set()),
        (pod(X), pod(X, "Recursive"), POLICIES | LABELS),
        (pod(X), pod(), POLICIES | LABELS),
        (pod({"type": "t"}), pod(), POLICIES),
        (pod(X, "Recursive"), pod(Y, "Recursive"), set()),
        (pod(X), pod(Y, claim="other"), set()),
        (pod(X), pod(Y, claim="missing"), set()),
    ],
)
async def test_two_pods_with_one_volume(
    one: JSON, other: JSON, expected: set[tuple[str, str, str]]
) -> None:
    cluster = Storage(rbac=True)
    add_driver(cluster)
    cluster.bound()
    cluster.bound("other")
    async with cluster.confined_manager(CONFIG) as recording:
        add_pods(cluster, p=one, q=other)
        assert await told(cluster) == expected
    assert all("/events" in each.path for each in recording.writes)


async def test_it_does_not_run_by_default(cluster: Storage) -> None:
    """As upstream's, it must be named in --controllers."""
    add_driver(cluster)
    cluster.bound()
    add_pods(cluster, p=pod(X), q=pod(Y))
    async with cluster.manager(make_config(controllers=("*",))):
        await asyncio.sleep(1)
    sources = {each["source"]["component"] for each in cluster.all(EVENTS)}
    assert "selinux_warning" not in sources


async def test_a_driver_begins_to_mount_labels(cluster: Storage) -> None:
    """Its pods are synced again, and once more when the driver is gone."""
    add_driver(cluster, mounts=False)
    cluster.bound()
    add_pods(cluster, p=pod(X), q=pod(Y))
    async with cluster.manager(CONFIG):
        assert await told(cluster) == set()
        cluster.edit(CSI_DRIVERS, DRIVER, spec={"seLinuxMount": True})
        assert await told(cluster) >= LABELS
        cluster.remove(CSI_DRIVERS, DRIVER)
        await asyncio.sleep(1)
        add_pods(cluster, r=pod(Y))
        assert "r" not in {name for name, _, _ in await told(cluster)}


async def test_a_claim_that_is_bound_later_counts_then(cluster: Storage) -> None:
    """Upstream retries until then."""
    add_driver(cluster)
    async with cluster.manager(CONFIG):
        add_pods(cluster, p=pod(X), q=pod(Y), r=mounts_twice())
        await asyncio.sleep(60)
        assert await told(cluster) == set()
        cluster.bound()
        twice = ("r", "MultipleSELinuxLabels", "Warning")
        found = await told(cluster)
    assert found >= LABELS | {twice}


async def test_a_pod_that_has_ended_or_is_gone_does_not_count(cluster: Storage) -> None:
    add_driver(cluster)
    cluster.bound()
    async with cluster.manager(CONFIG):
        add_pods(cluster, p=pod(X), q=pod(X))
        await asyncio.sleep(1)
        cluster.set_status("p", phase="Succeeded")
        cluster.remove(PODS, "q")
        await asyncio.sleep(1)
        add_pods(cluster, r=pod(Y))
        assert await told(cluster) == set()


SOURCES: Final[tuple[JSON | None, ...]] = (
    None,
    {"emptyDir": {}},
    {"configMap": {"name": "settings"}},
    {"secret": {"secretName": "keys"}},
    {"projected": {"sources": []}},
    {"hostPath": {"path": "/srv"}},
    {"nfs": {"server": "store", "path": "/"}},
    {"csi": {"driver": DRIVER}},
    {"fc": {"wwids": ["w"]}},
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda it: next(iter(it or ["claim"])))
@pytest.mark.parametrize(
    "kind", ["containers", "initContainers", "ephemeralContainers"]
)
async def test_a_pod_is_told_of_two_labels_of_a_volume_of_any_kind(
    cluster: Storage, source: JSON | None, kind: str
) -> None:
    """A volume that no other pod can have counts, too."""
    add_driver(cluster)
    cluster.bound()
    add_pods(cluster, p=mounts_twice(kind, source), q=pod(X, source=source))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(60)
    told = cluster.told(counted=True)
    others = [each for each in told if source is None and each[0] == "q"]
    assert [each for each in told if each not in others] == [f"{TWICE} x1"]


def iscsi(portal: str) -> JSON:
    return {"iscsi": {"targetPortal": portal, "iqn": "iqn.2020-01.a:b", "lun": 3}}


FC: Final[JSON] = {"fc": {"targetWWNs": ["a", "b"], "lun": 0}}
NFS: Final[JSON] = {"nfs": {"server": "s", "path": "/"}}
DISKS: Final[tuple[tuple[JSON, JSON, set[tuple[str, str, str]]], ...]] = (
    (FC, FC, LABELS),
    (FC, {"fc": {"targetWWNs": ["a", "b"], "lun": 1}}, set()),
    ({"fc": {"wwids": ["w"]}}, {"fc": {"wwids": ["w"]}}, LABELS),
    ({"fc": {"targetWWNs": ["a"]}}, {"fc": {"targetWWNs": ["a"]}}, set()),
    (iscsi("10.0.0.1"), iscsi("10.0.0.1"), LABELS),
    (iscsi("10.0.0.1"), iscsi("10.0.0.2"), set()),
    (NFS, NFS, set()),
    ({"hostPath": {"path": "/srv"}}, {"hostPath": {"path": "/srv"}}, set()),
)


@pytest.mark.parametrize(("one", "other", "expected"), DISKS)
@pytest.mark.parametrize("claimed", [False, True], ids=["inline", "claimed"])
async def test_disks_that_the_kubelet_mounts_itself_are_compared(
    cluster: Storage,
    one: JSON,
    other: JSON,
    expected: set[tuple[str, str, str]],
    *,
    claimed: bool,
) -> None:
    """Of the plugins in the kubelet, those for FC and iSCSI mount with a label."""
    cluster.bound(source=other)
    second = pod(Y, source=None if claimed else other)
    add_pods(cluster, p=pod(X, source=one), q=second)
    async with cluster.manager(CONFIG):
        assert await told(cluster) == expected


async def test_the_metric_has_each_conflict_twice(cluster: Storage) -> None:
    add_driver(cluster)
    cluster.bound()
    add_pods(cluster, p=pod(X), q=pod(Y))
    connections = Connections(cluster.transport, root_ca=ROOT_CA)
    async with run_manager(connections, cluster.clock, cluster.rng, CONFIG) as manager:
        await asyncio.sleep(1)
        x, y = ":::s0:c1,c2", ":::s0:c98,c99"
        assert samples(manager) == {
            ("SELinuxLabel", "default", "p", x, "default", "q", y): 1.0,
            ("SELinuxLabel", "default", "q", y, "default", "p", x): 1.0,
        }
        cluster.remove(PODS, "q")
        await asyncio.sleep(1)
        assert samples(manager) == {}


def samples(manager: Any) -> dict[tuple[str, ...], float]:
    name = "selinux_warning_controller_selinux_volume_conflict"
    return {
        tuple(each.labels.values()): each.value
        for family in manager._registry.collect()
        for each in family.samples
        if each.name == name
    }


async def test_a_replaced_plugin_counts_as_its_driver(cluster: Storage) -> None:
    """So does a volume that pods define themselves."""
    add_driver(cluster, "ebs.csi.aws.com")
    ebs = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    add_pods(cluster, p=pod(X, source=ebs), q=pod(Y, source=ebs))
    async with cluster.manager(CONFIG):
        assert await told(cluster) == LABELS


async def test_an_ephemeral_claim_must_be_the_pods_own(cluster: Storage) -> None:
    add_driver(cluster)
    add_pods(cluster, p=pod(X, source=ephemeral("data")), q=pod(Y, claim="p-data"))
    async with cluster.manager(CONFIG):
        cluster.bound("p-data")
        assert await told(cluster) == set()
        uid = cluster.stored(PODS, "p")["metadata"]["uid"]
        cluster.edit(CLAIMS, "p-data", metadata=owned_by("p", uid))
        assert await told(cluster) == LABELS


async def test_a_pod_that_comes_back_is_told_again(cluster: Storage) -> None:
    """The watch may show the deletion and the new pod together."""
    add_driver(cluster)
    cluster.bound()
    async with cluster.manager(CONFIG):
        add_pods(cluster, p=pod(X), q=pod(Y))
        await asyncio.sleep(1)
        cluster.drop(PODS, "p")
        add_pods(cluster, p=pod(X))  # in the same turn of the event loop
        await asyncio.sleep(1)
    present = {each["metadata"]["uid"] for each in cluster.all(PODS)}
    assert len(present) == 2
    assert {each["involvedObject"]["uid"] for each in cluster.all(EVENTS)} > present
