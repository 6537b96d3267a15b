"""Attachments, drivers, capacities, classes of attributes, and volumes."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NOT_RESIZABLE = (
    "only dynamically provisioned pvc can be resized and the storageclass that "
    "provisions the pvc must support resize"
)
DRIVER = {"name": "csi.example.com", "nodeID": "n"}


def expansion(size: str) -> JSON:
    return {"spec": {"resources": {"requests": {"storage": size}}}}


@pytest.mark.parametrize(
    ("kind", "finalizer"),
    [
        ("PersistentVolume", "kubernetes.io/pv-protection"),
        ("PersistentVolumeClaim", "kubernetes.io/pvc-protection"),
        ("VolumeAttributesClass", "kubernetes.io/vac-protection"),
    ],
)
async def test_admission_protects_new_objects(
    cluster: Cluster, kind: str, finalizer: str
) -> None:
    """Also if they have other finalizers; it may be removed later."""
    given = {"metadata": {"finalizers": ["example.com/a"]}}
    created = create(cluster, kind, given)
    assert created["metadata"]["finalizers"] == ["example.com/a", finalizer]
    again = {"metadata": {"name": "again", "finalizers": [finalizer]}}
    assert create(cluster, kind, again)["metadata"]["finalizers"] == [finalizer]
    free = update(cluster, created, {"metadata": {"finalizers": None}})
    assert "finalizers" not in free["metadata"]


async def test_the_capacity_of_a_driver_on_a_node_may_change(cluster: Cluster) -> None:
    node = create(cluster, "CSINode", {"spec": {"drivers": [DRIVER]}})
    limited = {**DRIVER, "topologyKeys": None, "allocatable": {"count": 5}}
    other = {"name": "other", "nodeID": "n", "topologyKeys": ["zone"]}
    changed = update(cluster, node, {"spec": {"drivers": [limited, other]}})
    assert changed["spec"]["drivers"] == [limited, other]
    assert update(cluster, changed, {"spec": None})["spec"] == {"drivers": []}


async def test_a_driver_reports_an_attachment_in_its_status(cluster: Cluster) -> None:
    attachment = create(cluster, "VolumeAttachment", {"status": {"attached": True}})
    assert attachment["status"] == {"attached": False}
    reported = update(cluster, attachment, {"status": {"attached": True}}, "status")
    assert reported["status"] == {"attached": True}


async def test_a_volume_has_the_time_of_its_phase(cluster: Cluster) -> None:
    volume = create(cluster, "PersistentVolume")
    created = volume["metadata"]["creationTimestamp"]
    name = "lastPhaseTransitionTime"
    assert volume["status"] == {"phase": "Pending", name: created}
    await asyncio.sleep(5)
    free = update(cluster, volume, {"status": {"phase": "Available"}}, "status")
    assert free["status"][name] == "2026-01-01T00:00:05Z"
    await asyncio.sleep(5)
    same = update(cluster, free, {"status": {"message": "m", name: None}}, "status")
    assert same["status"][name] == free["status"][name]
    bound = {"phase": "Bound", name: "2026-01-01T00:00:07Z"}
    told = update(cluster, same, {"status": bound}, "status")
    assert told["status"][name] == "2026-01-01T00:00:07Z"


async def test_a_node_lists_the_volumes_on_it(cluster: Cluster) -> None:
    node = create(cluster, "Node")
    volumes = {"volumesAttached": [{"name": "v"}], "volumesInUse": ["v"]}
    status = update(cluster, node, {"status": volumes}, "status")["status"]
    assert status["volumesAttached"] == [{"name": "v", "devicePath": ""}]
    assert status["volumesInUse"] == ["v"]


async def test_a_claim_without_a_class_gets_the_newest_default_class(
    cluster: Cluster,
) -> None:
    """Of several that are as new, the first by name; "" is a class, too."""
    assert "storageClassName" not in create(cluster, "PersistentVolumeClaim")["spec"]
    default = {"annotations": {DEFAULT_CLASS: "true"}}
    for name in ("a", "c", "b"):
        create(cluster, "StorageClass", {"metadata": {"name": name, **default}})
        await asyncio.sleep(2 if name == "a" else 0)
    claims = {
        name: create(
            cluster,
            "PersistentVolumeClaim",
            {"metadata": {"name": name}, "spec": {"storageClassName": given}},
        )
        for name, given in (("none", None), ("empty", ""), ("own", "a"))
    }
    classes = {name: each["spec"]["storageClassName"] for name, each in claims.items()}
    assert classes == {"none": "b", "empty": "", "own": "a"}


@rows("given", "expected")
async def test_both_fields_name_the_source_of_a_claim(
    cluster: Cluster, given: JSON, expected: JSON
) -> None:
    spec = create(cluster, "PersistentVolumeClaim", {"spec": given})["spec"]
    found = {name: spec[name] for name in spec if name.startswith("dataSource")}
    assert found == expected


async def test_a_claim_grows_only_if_its_class_allows_that(cluster: Cluster) -> None:
    create(cluster, "StorageClass")
    for name, given in (("fixed", "a"), ("classless", "")):
        claim = create(
            cluster,
            "PersistentVolumeClaim",
            {"metadata": {"name": name}, "spec": {"storageClassName": given}},
        )
        bound = update(cluster, claim, {"status": {"phase": "Bound"}}, "status")
        with pytest.raises(Refusal) as caught:
            update(cluster, bound, expansion("2Gi"))
        assert caught.value.code == 403
        assert caught.value.message == (
            f'persistentvolumeclaims "{name}" is forbidden: {NOT_RESIZABLE}'
        )


async def test_the_status_of_a_claim_has_known_states_of_expansion(
    cluster: Cluster,
) -> None:
    claim = create(cluster, "PersistentVolumeClaim")
    states = {"storage": "NodeResizePending"}
    good = {"status": {"allocatedResourceStatuses": states}}
    assert update(cluster, claim, good, "status")["status"] == {
        "phase": "Pending",
        "allocatedResourceStatuses": states,
    }
    bad = {
        "status": {
            "allocatedResourceStatuses": {"storage": "Growing"},
            "capacity": {"storage": "-1"},
        }
    }
    with pytest.raises(Refusal) as caught:
        update(cluster, claim, bad, "status")
    assert [each.partition(":")[0] for each in causes(caught.value)] == [
        "status.capacity[storage]",
        "status.allocatedResourceStatus",
    ]
