"""Attachments, drivers, capacities, classes of attributes, and volumes."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry import find_kinds
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
IMMUTABLE = "field is immutable"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NOT_RESIZABLE = (
    "only dynamically provisioned pvc can be resized and the storageclass that "
    "provisions the pvc must support resize"
)
DRIVER = {"name": "csi.example.com", "nodeID": "n"}
SOURCE = {"kind": "PersistentVolumeClaim", "name": "a"}


def row(obj: JSON, cluster: Cluster) -> list[Any]:
    """Return the cells that kubectl shows of an object."""
    kinds = {(each.api_version, each.kind): each for each in find_kinds()}
    strategy = kinds[obj["apiVersion"], obj["kind"]].strategy
    return strategy.cells(obj, cluster.clock.now())


def expansion(size: str) -> JSON:
    return {"spec": {"resources": {"requests": {"storage": size}}}}


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (
            "VolumeAttachment",
            {},
            ["a", "csi.example.com", "a", "node-0", False, "0s"],
        ),
        (
            "CSIDriver",
            {},
            ["a", True, False, False, "<unset>", False, "Persistent", "0s"],
        ),
        (
            "CSIDriver",
            {
                "spec": {
                    "attachRequired": False,
                    "tokenRequests": [{"audience": "x"}, {"audience": ""}],
                    "volumeLifecycleModes": ["Persistent", "Ephemeral"],
                }
            },
            ["a", False, False, False, "x,", False, "Persistent,Ephemeral", "0s"],
        ),
        ("CSINode", {"spec": {"drivers": [DRIVER]}}, ["a", 1, "0s"]),
        ("CSIStorageCapacity", {}, ["a", "fast", "<unset>"]),
        ("CSIStorageCapacity", {"capacity": "1Gi"}, ["a", "fast", "1Gi"]),
        ("VolumeAttributesClass", {}, ["a", "csi.example.com", "0s"]),
        ("ResourceClaimTemplate", {}, ["a", "0s"]),
    ],
)
async def test_a_kind_of_storage_has_its_table(
    cluster: Cluster, kind: str, given: JSON, expected: list[Any]
) -> None:
    """With the cells of upstream's printers."""
    assert row(create(cluster, kind, given), cluster) == expected


async def test_capacities_are_stored_in_canonical_form(cluster: Cluster) -> None:
    """As all quantities are."""
    given = {"capacity": "1024Mi", "maximumVolumeSize": "2048Mi"}
    stored = create(cluster, "CSIStorageCapacity", given)
    assert (stored["capacity"], stored["maximumVolumeSize"]) == ("1Gi", "2Gi")


async def test_a_driver_gets_its_defaults(cluster: Cluster) -> None:
    """Its volumes are attached, and persistent."""
    assert create(cluster, "CSIDriver")["spec"] == {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    }


async def test_a_template_of_claims_to_devices_gets_their_defaults(
    cluster: Cluster,
) -> None:
    """So that claims made from it need none."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    given = {"spec": {"spec": {"devices": {"requests": [request]}}}}
    template = create(cluster, "ResourceClaimTemplate", given)
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    devices = {"requests": [{"name": "r", "exactly": exactly}]}
    assert template["spec"] == {"metadata": {}, "spec": {"devices": devices}}


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


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (
            "VolumeAttachment",
            {"spec": {"attacher": "", "source": None}},
            [
                "spec.attacher: Required value",
                f"spec.source: Required value: {ONE_SOURCE}",
            ],
        ),
        (
            "VolumeAttachment",
            {"spec": {"source": {"inlineVolumeSpec": {}}}},
            [f"spec.source: Forbidden: {ONE_SOURCE}"],
        ),
        (
            "CSIDriver",
            {
                "spec": {
                    "fsGroupPolicy": "Never",
                    "nodeAllocatableUpdatePeriodSeconds": 9,
                    "tokenRequests": [{"audience": "x"}, {"audience": "x"}],
                    "volumeLifecycleModes": ["Short"],
                }
            },
            [
                (
                    'spec.fsGroupPolicy: Unsupported value: "Never": supported values: '
                    '"File", "None", "ReadWriteOnceWithFSType"'
                ),
                'spec.tokenRequests[1].audience: Duplicate value: "x"',
                (
                    'spec.volumeLifecycleModes: Unsupported value: "Short": supported '
                    'values: "Persistent", "Ephemeral"'
                ),
                (
                    "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: "
                    "must be greater than or equal to 10 seconds"
                ),
            ],
        ),
        (
            "CSINode",
            {
                "spec": {
                    "drivers": [
                        {**DRIVER, "allocatable": {"count": -1}},
                        {**DRIVER, "nodeID": "", "topologyKeys": ["zone", "zone"]},
                    ]
                }
            },
            [
                (
                    "spec.drivers[0].allocatable.count: Invalid value: -1: must be "
                    "greater than or equal to 0"
                ),
                "spec.drivers[1].nodeID: Required value",
                'spec.drivers[1].name: Duplicate value: "csi.example.com"',
                'spec.drivers[1]: Duplicate value: "zone"',
            ],
        ),
        (
            "VolumeAttributesClass",
            {"driverName": "", "parameters": None},
            [
                "driverName: Required value",
                "parameters: Required value: must contain at least one key/value pair",
            ],
        ),
        (
            "PersistentVolume",
            {"spec": {"volumeAttributesClassName": "gold"}},
            [
                (
                    "spec.csi: Required value: has to be specified when using "
                    "volumeAttributesClassName"
                )
            ],
        ),
    ],
)
async def test_an_invalid_object_of_storage_is_refused(
    cluster: Cluster, kind: str, given: JSON, expected: list[str]
) -> None:
    """With upstream's causes."""
    with pytest.raises(Refusal) as caught:
        create(cluster, kind, given)
    assert causes(caught.value) == expected


@pytest.mark.parametrize(
    ("kind", "given", "change", "expected"),
    [
        (
            "VolumeAttachment",
            {},
            {"spec": {"nodeName": "node-1"}},
            [f"spec: {IMMUTABLE}"],
        ),
        (
            "CSIDriver",
            {},
            {"spec": {"attachRequired": False, "podInfoOnMount": True}},
            [f"spec.attachedRequired: Invalid value: false: {IMMUTABLE}"],
        ),
        (
            "CSINode",
            {"spec": {"drivers": [DRIVER]}},
            {"spec": {"drivers": [{**DRIVER, "nodeID": "other"}]}},
            [f"spec.drivers: {IMMUTABLE}"],
        ),
        (
            "CSIStorageCapacity",
            {},
            {"storageClassName": "slow", "capacity": "1Gi"},
            [f'storageClassName: Invalid value: "slow": {IMMUTABLE}'],
        ),
        (
            "VolumeAttributesClass",
            {},
            {"driverName": "x", "parameters": {"iops": "1"}},
            [
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
            ],
        ),
        (
            "ResourceClaimTemplate",
            {},
            {"spec": {"metadata": {"labels": {"a": "b"}}}},
            [f"spec: {IMMUTABLE}"],
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"volumeAttributesClassName": "gold"}},
            {"spec": {"volumeAttributesClassName": None}},
            [
                (
                    "spec.volumeAttributesClassName: Forbidden: update from non-nil "
                    "value to nil is forbidden"
                )
            ],
        ),
    ],
)
async def test_immutable_fields_do_not_change(
    cluster: Cluster, kind: str, given: JSON, change: JSON, expected: list[str]
) -> None:
    """With upstream's causes."""
    created = create(cluster, kind, given)
    with pytest.raises(Refusal) as caught:
        update(cluster, created, change)
    assert causes(caught.value) == expected


async def test_the_capacity_of_a_driver_on_a_node_may_change(cluster: Cluster) -> None:
    """Drivers may also come and go."""
    node = create(cluster, "CSINode", {"spec": {"drivers": [DRIVER]}})
    limited = {**DRIVER, "topologyKeys": None, "allocatable": {"count": 5}}
    other = {"name": "other", "nodeID": "n", "topologyKeys": ["zone"]}
    changed = update(cluster, node, {"spec": {"drivers": [limited, other]}})
    assert changed["spec"]["drivers"] == [limited, other]
    assert update(cluster, changed, {"spec": None})["spec"] == {"drivers": []}


async def test_a_driver_reports_an_attachment_in_its_status(cluster: Cluster) -> None:
    """A new attachment has none; a message must not be too long."""
    attachment = create(cluster, "VolumeAttachment", {"status": {"attached": True}})
    assert attachment["status"] == {"attached": False}
    reported = update(cluster, attachment, {"status": {"attached": True}}, "status")
    assert reported["status"] == {"attached": True}
    too_long = {"status": {"detachError": {"message": "x" * 1025}}}
    with pytest.raises(Refusal) as caught:
        update(cluster, reported, too_long, "status")
    assert causes(caught.value) == [
        "status.detachError.message: Too long: may not be more than 262144 bytes"
    ]


async def test_a_volume_has_the_time_of_its_phase(cluster: Cluster) -> None:
    """The server fills it in, unless the writer of the status has."""
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
    """Go writes the path of a device also when it is empty."""
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"dataSource": SOURCE},
            {
                "dataSource": {**SOURCE, "apiGroup": None},
                "dataSourceRef": {**SOURCE, "apiGroup": None},
            },
        ),
        ({"dataSource": {"apiGroup": "x.io", "kind": "X", "name": "a"}}, {}),
        (
            {"dataSourceRef": {"apiGroup": "x.io", "kind": "X", "name": "a"}},
            {
                "dataSource": {"apiGroup": "x.io", "kind": "X", "name": "a"},
                "dataSourceRef": {"apiGroup": "x.io", "kind": "X", "name": "a"},
            },
        ),
        (
            {"dataSourceRef": {"kind": "X", "name": "a", "namespace": "b"}},
            {
                "dataSourceRef": {
                    "apiGroup": None,
                    "kind": "X",
                    "name": "a",
                    "namespace": "b",
                }
            },
        ),
    ],
)
async def test_both_fields_name_the_source_of_a_claim(
    cluster: Cluster, given: JSON, expected: JSON
) -> None:
    """As far as the older one can. Go writes null for an absent group."""
    spec = create(cluster, "PersistentVolumeClaim", {"spec": given})["spec"]
    found = {name: spec[name] for name in spec if name.startswith("dataSource")}
    assert found == expected


async def test_a_claim_grows_only_if_its_class_allows_that(cluster: Cluster) -> None:
    """A claim without a class never does."""
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
    """And sizes that are quantities."""
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
