"""The rows that kubectl prints, as upstream's printers fill them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry import find_kinds

NOW = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
CLAIMED = {
    "volumeName": "pv-1",
    "storageClassName": "fast",
    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
}


def row(resource: str, obj: JSON, **metadata: Any) -> list[Any]:
    kind = next(each for each in find_kinds() if each.resource == resource)
    created = {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    cells = kind.strategy.cells({**obj, "metadata": {**created, **metadata}}, NOW)
    assert len(cells) == len(kind.strategy.table_columns())
    return cells


@pytest.mark.parametrize(
    ("resource", "obj", "cells"),
    [
        (
            "statefulsets.apps",
            {
                "spec": {"replicas": 3, "template": TEMPLATE},
                "status": {"readyReplicas": 2},
            },
            ["a", "2/3", "30s", "c", "i"],
        ),
        (
            "daemonsets.apps",
            {
                "spec": {
                    "selector": {"matchLabels": {"k": "v"}},
                    "template": {
                        "spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}
                    },
                },
                "status": {
                    "desiredNumberScheduled": 5,
                    "currentNumberScheduled": 4,
                    "numberReady": 3,
                    "updatedNumberScheduled": 2,
                    "numberAvailable": 1,
                },
            },
            ["a", 5, 4, 3, 2, 1, "disk=ssd", "30s", "c", "i", "k=v"],
        ),
        (
            "poddisruptionbudgets.policy",
            {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}},
            ["a", "50%", "N/A", 2, "30s"],
        ),
        ("endpoints", {}, ["a", "<none>", "30s"]),
        (
            "endpoints",
            {
                "subsets": [
                    {
                        "addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)],
                        "ports": [{"port": 80}],
                    }
                ]
            },
            ["a", "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...", "30s"],
        ),
        (
            "persistentvolumeclaims",
            {"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}},
            ["a", "Pending", "", "", "", "fast", "<unset>", "30s", "<unset>"],
        ),
        (
            "persistentvolumeclaims",
            {
                "spec": CLAIMED,
                "status": {
                    "phase": "Bound",
                    "capacity": {"storage": "1Gi"},
                    "accessModes": CLAIMED["accessModes"],
                },
            },
            [
                *("a", "Bound", "pv-1", "1Gi", "RWO,RWX", "fast"),
                *("<unset>", "30s", "<unset>"),
            ],
        ),
        (
            "persistentvolumes",
            {
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": "n", "name": "claim"},
                    "volumeMode": "Filesystem",
                },
                "status": {"phase": "Bound"},
            },
            [
                *("a", "1Gi", "RWO", "Retain", "Bound", "n/claim", ""),
                *("<unset>", "", "30s", "Filesystem"),
            ],
        ),
        (
            "resourceslices.resource.k8s.io",
            {"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}},
            ["a", "n", "d", "p", "30s"],
        ),
        (
            "resourcepoolstatusrequests.resource.k8s.io",
            {
                "spec": {"driver": "d"},
                "status": {
                    "pools": [
                        {
                            "totalDevices": 4,
                            "availableDevices": 1,
                            "allocatedDevices": 3,
                            "unavailableDevices": 0,
                        },
                        {"totalDevices": 2, "availableDevices": 2},
                        {"validationError": "incomplete"},
                    ]
                },
            },
            ["a", "d", 6, 3, 3, 0, 1, "30s"],
        ),
        (
            "storageversions.internal.apiserver.k8s.io",
            {
                "status": {
                    "commonEncodingVersion": "v1",
                    "storageVersions": [
                        {"apiServerID": each, "encodingVersion": "v1"}
                        for each in "abcd"
                    ],
                }
            },
            ["a", "v1", "a=v1,b=v1,c=v1 + 1 more...", "30s"],
        ),
        (
            "storageversions.internal.apiserver.k8s.io",
            {"status": {}},
            ["a", "<unset>", "", "30s"],
        ),
        (
            "storageversionmigrations.storagemigration.k8s.io",
            {
                "spec": {"resource": {"group": "apps", "resource": "deployments"}},
                "status": {
                    "conditions": [
                        {"type": "Running", "status": "True"},
                        {"type": "Succeeded", "status": "True"},
                    ]
                },
            },
            ["a", "deployments.apps", "Succeeded"],
        ),
        ("podgroups.scheduling.k8s.io", {}, ["a", "30s"]),
        ("workloads.scheduling.k8s.io", {}, ["a", "30s"]),
        ("resourceclaims.resource.k8s.io", {"status": {}}, ["a", "pending", "30s"]),
        (
            "resourceclaims.resource.k8s.io",
            {"status": {"allocation": {"devices": {}}, "reservedFor": [{"uid": "1"}]}},
            ["a", "allocated,reserved", "30s"],
        ),
        (
            "rolebindings.rbac.authorization.k8s.io",
            {
                "roleRef": {"kind": "Role", "name": "reader"},
                "subjects": [
                    {"kind": "User", "name": "jane"},
                    {"kind": "User", "name": "joe"},
                    {"kind": "ServiceAccount", "namespace": "n", "name": "bot"},
                ],
            },
            ["a", "Role/reader", "30s", "jane, joe", "", "n/bot"],
        ),
    ],
)
def test_a_row_says_what_upstreams_says(
    resource: str, obj: JSON, cells: list[Any]
) -> None:
    """Cell by cell."""
    assert row(resource, obj) == cells


def test_a_revision_names_its_controller() -> None:
    """With the group of its kind."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "agent",
        "controller": True,
    }
    cells = row("controllerrevisions.apps", {"revision": 7}, ownerReferences=[owner])
    assert cells == ["a", "daemonset.apps/agent", 7, "30s"]
    assert row("controllerrevisions.apps", {})[1] == "<none>"


def test_a_claim_that_is_being_deleted_says_so() -> None:
    """In each phase."""
    ending = {"deletionTimestamp": "2026-01-01T00:00:10Z"}
    bound = {"spec": {}, "status": {"phase": "Bound"}}
    assert row("persistentvolumeclaims", bound, **ending)[1] == "Terminating"
