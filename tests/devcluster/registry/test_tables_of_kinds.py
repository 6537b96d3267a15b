"""Each built-in kind has the columns and the cells of upstream's printers.

Upstream: pkg/printers/internalversion/printers.go. Columns in small letters are shown
with ``-o wide`` only. More rows of some kinds are in test_columns.py.
"""

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds

NOW: Final = datetime(2026, 1, 1, 0, 2, 5, tzinfo=UTC)
CREATED: Final = "2026-01-01T00:00:00Z"
AGE: Final = "2m5s"
CONTAINERS: Final = [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:2"}]
TEMPLATE: Final = {
    "metadata": {"labels": {"b": "2", "a": "1"}},
    "spec": {"containers": CONTAINERS},
}
SELECTOR: Final = {"matchLabels": {"b": "2", "a": "1"}}
WIDE: Final = ("c,d", "i:1,j:2", "a=1,b=2")
ELSEWHERE: Final = frozenset(("pods", "jobs.batch"))
"""Kinds with a file of tests about their cells alone."""

ROWS: Final[list[tuple[str, str, JSON, list[Any]]]] = [
    ("componentstatuses", "Name Status Message Error", {}, []),
    ("configmaps", "Name Data Age", {"data": {"a": "b"}}, [1]),
    ("endpoints", "Name Endpoints Age", {"subsets": []}, ["<none>"]),
    (
        "events",
        "Last_Seen Type Reason Object subobject source Message first_seen count name",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
            "type": "Normal",
            "reason": "Started",
            "source": {"component": "kubelet", "host": "n"},
            "message": " it runs \n",
            "firstTimestamp": "2026-01-01T00:00:05Z",
            "lastTimestamp": "2026-01-01T00:02:00Z",
            "count": 3,
        },
        ["5s", "Normal", "Started", "pod/p", "spec", "kubelet, n", "it runs", "2m", 3],
    ),
    (
        "events.events.k8s.io",
        "Last_Seen Type Reason Object subobject source Message first_seen count name",
        {
            "regarding": {"kind": "Node"},
            "type": "Warning",
            "reason": "Gone",
            "reportingController": "me",
            "note": "n",
            "eventTime": "2026-01-01T00:00:05.000000Z",
            "series": {"count": 2, "lastObservedTime": "2026-01-01T00:02:04.000000Z"},
        },
        ["1s", "Warning", "Gone", "node", "", "me", "n", "2m", 2],
    ),
    ("limitranges", "Name Created_At", {}, []),
    ("namespaces", "Name Status Age", {"status": {"phase": "Active"}}, ["Active"]),
    (
        "nodes",
        (
            "Name Status Roles Age Version internal-ip external-ip os-image "
            "kernel-version container-runtime"
        ),
        {
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Linux"},
            },
        },
        [
            *("Ready,SchedulingDisabled", "<none>", AGE, "v1.36.0"),
            *("1.2.3.4", "<none>", "Linux", "<unknown>", "<unknown>"),
        ],
    ),
    (
        "persistentvolumeclaims",
        (
            "Name Status Volume Capacity Access_Modes StorageClass "
            "VolumeAttributesClass Age volumemode"
        ),
        {"spec": {"volumeMode": "Block"}, "status": {"phase": "Pending"}},
        ["Pending", "", "", "", "", "<unset>", AGE, "Block"],
    ),
    (
        "persistentvolumes",
        (
            "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass "
            "VolumeAttributesClass Reason Age volumemode"
        ),
        {
            "spec": {
                "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
            },
            "status": {"phase": "Available"},
        },
        [
            "1Gi",
            "RWO,ROX",
            "Retain",
            "Available",
            "",
            "",
            "<unset>",
            "",
            AGE,
            "<unset>",
        ],
    ),
    (
        "podtemplates",
        "Name Containers Images Pod_Labels",
        {"template": TEMPLATE},
        [*WIDE],
    ),
    (
        "replicationcontrollers",
        "Name Desired Current Ready Age containers images selector",
        {
            "spec": {"replicas": 3, "selector": {"a": "1"}, "template": TEMPLATE},
            "status": {"replicas": 2, "readyReplicas": 1},
        },
        [3, 2, 1, AGE, "c,d", "i:1,j:2", "a=1"],
    ),
    (
        "resourcequotas",
        "Name Request Limit Age",
        {
            "status": {
                "hard": {"limits.cpu": "2", "pods": "9", "cpu": "1"},
                "used": {"pods": "3", "cpu": "0", "limits.cpu": "1"},
            }
        },
        ["cpu: 0/1, pods: 3/9", "limits.cpu: 1/2"],
    ),
    ("secrets", "Name Type Data Age", {"type": "Opaque"}, ["Opaque", 0]),
    ("serviceaccounts", "Name Secrets Age", {"secrets": [{"name": "s"}]}, [1]),
    (
        "services",
        "Name Type Cluster-IP External-IP Port(s) Age selector",
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIPs": ["10.0.0.1"],
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
                "externalIPs": ["9.9.9.9"],
            },
            "status": {
                "loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "a.b"}]}
            },
        },
        [
            *("LoadBalancer", "10.0.0.1", "2.2.2.2,a.b,9.9.9.9", "80:30080/TCP"),
            *(AGE, "<none>"),
        ],
    ),
    (
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "Name Mutations ParamKind Age",
        {"spec": {"mutations": [{}, {}]}},
        [2, "<unset>"],
    ),
    (
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        "Name PolicyName ParamRef Age",
        {"spec": {"policyName": "p", "paramRef": {"name": "n", "namespace": "m"}}},
        ["p", "m/n"],
    ),
    (
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "Name Webhooks Age",
        {"webhooks": [{}, {}]},
        [2],
    ),
    (
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "Name Webhooks Age",
        {},
        [0],
    ),
    (
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "Name Validations ParamKind Age",
        {"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "A"}}},
        [1, "v1/A"],
    ),
    (
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "Name PolicyName ParamRef Age",
        {"spec": {"policyName": "p"}},
        ["p", "<unset>"],
    ),
    *(
        (
            f"{kind}webhookconfigurations.admissionregistration.k8s.io",
            "Name Webhooks Age",
            {"webhooks": [{}, {}]},
            [2],
        )
        for kind in ("mutating", "validating")
    ),
    ("customresourcedefinitions.apiextensions.k8s.io", "Name Created_At", {}, []),
    (
        "apiservices.apiregistration.k8s.io",
        "Name Service Available Age",
        {
            "spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {
                "conditions": [
                    {"type": "Available", "status": "False", "reason": "Why"}
                ]
            },
        },
        ["n/s", "False (Why)"],
    ),
    ("apiservices.apiregistration.k8s.io", "", {"spec": {}}, ["Local", "Unknown"]),
    (
        "controllerrevisions.apps",
        "Name Controller Revision Age",
        {"revision": 2},
        ["<none>", 2],
    ),
    (
        "daemonsets.apps",
        (
            "Name Desired Current Ready Up-to-date Available Node_Selector Age "
            "containers images selector"
        ),
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}, "status": {}},
        [0, 0, 0, 0, 0, "<none>", AGE, *WIDE],
    ),
    (
        "deployments.apps",
        "Name Ready Up-to-date Available Age containers images selector",
        {
            "spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE},
            "status": {"readyReplicas": 1, "updatedReplicas": 2},
        },
        ["1/3", 2, 0, AGE, *WIDE],
    ),
    (
        "replicasets.apps",
        "Name Desired Current Ready Age containers images selector",
        {"spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE}},
        [3, 0, 0, AGE, *WIDE],
    ),
    (
        "statefulsets.apps",
        "Name Ready Age containers images",
        {"spec": {"replicas": 3, "template": TEMPLATE}},
        ["0/3", AGE, "c,d", "i:1,j:2"],
    ),
    (
        "horizontalpodautoscalers.autoscaling",
        "Name Reference Targets MinPods MaxPods Replicas Age",
        {
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                "maxReplicas": 3,
            },
            "status": {"currentReplicas": 2},
        },
        ["Deployment/d", "<none>", "<unset>", "3", 2],
    ),
    (
        "cronjobs.batch",
        (
            "Name Schedule Timezone Suspend Active Last_Schedule Age containers images "
            "selector"
        ),
        {
            "spec": {
                "schedule": "@daily",
                "suspend": False,
                "jobTemplate": {"spec": {"template": TEMPLATE}},
            },
            "status": {"lastScheduleTime": "2026-01-01T00:01:05Z"},
        },
        ["@daily", "<none>", "False", 0, "60s", AGE, "c,d", "i:1,j:2", "<none>"],
    ),
    (
        "certificatesigningrequests.certificates.k8s.io",
        "Name Age SignerName Requestor RequestedDuration Condition",
        {"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600}},
        [AGE, "s", "u", "60m", "Pending"],
    ),
    (
        "clustertrustbundles.certificates.k8s.io",
        "Name SignerName",
        {"spec": {}},
        ["<none>"],
    ),
    (
        "podcertificaterequests.certificates.k8s.io",
        "Name PodName ServiceAccountName NodeName SignerName Age",
        {"spec": {"podName": "p", "nodeName": "n"}},
        ["p", "", "n", ""],
    ),
    (
        "leases.coordination.k8s.io",
        "Name Holder Age",
        {"spec": {"holderIdentity": "me"}},
        ["me"],
    ),
    (
        "endpointslices.discovery.k8s.io",
        "Name AddressType Ports Endpoints Age",
        {
            "addressType": "IPv4",
            "ports": [{"port": 80}, {"name": "x"}],
            "endpoints": [{"addresses": [f"1.1.1.{n}"]} for n in range(5)],
        },
        ["IPv4", "80,x", "1.1.1.0,1.1.1.1,1.1.1.2 + 2 more..."],
    ),
    (
        "flowschemas.flowcontrol.apiserver.k8s.io",
        "Name PriorityLevel MatchingPrecedence DistinguisherMethod Age MissingPL",
        {
            "spec": {
                "priorityLevelConfiguration": {"name": "p"},
                "matchingPrecedence": 7,
            }
        },
        ["p", 7, "<none>", AGE, "?"],
    ),
    (
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        "Name Type NominalConcurrencyShares Queues HandSize QueueLengthLimit Age",
        {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0}}},
        ["Limited", 0, "<none>", "<none>", "<none>"],
    ),
    (
        "storageversions.internal.apiserver.k8s.io",
        "Name CommonEncodingVersion StorageVersions Age",
        {"status": {"commonEncodingVersion": "v1"}},
        ["v1", ""],
    ),
    (
        "ingressclasses.networking.k8s.io",
        "Name Controller Parameters Age",
        {"spec": {"controller": "a/b", "parameters": {"kind": "K", "name": "n"}}},
        ["a/b", "K/n"],
    ),
    ("ingressclasses.networking.k8s.io", "", {"spec": {}}, ["", "<none>"]),
    (
        "ingresses.networking.k8s.io",
        "Name Class Hosts Address Ports Age",
        {
            "spec": {
                "ingressClassName": "nginx",
                "rules": [{"host": each} for each in "abcde"],
                "tls": [{}],
            },
            "status": {
                "loadBalancer": {"ingress": [{"hostname": "z"}, {"ip": "1.2.3.4"}]}
            },
        },
        ["nginx", "a,b,c + 2 more...", "1.2.3.4,z", "80, 443"],
    ),
    (
        "ingresses.networking.k8s.io",
        "",
        {"spec": {"rules": [{}]}, "status": {"loadBalancer": {}}},
        ["<none>", "*", "", "80"],
    ),
    (
        "ipaddresses.networking.k8s.io",
        "Name ParentRef Age",
        {"spec": {"parentRef": {"resource": "services", "name": "s"}}},
        ["services/s"],
    ),
    (
        "networkpolicies.networking.k8s.io",
        "Name Pod-Selector Age",
        {"spec": {"podSelector": SELECTOR}},
        ["a=1,b=2"],
    ),
    (
        "servicecidrs.networking.k8s.io",
        "Name CIDRs Age",
        {"spec": {"cidrs": ["10.0.0.0/24", "fd00::/64"]}},
        ["10.0.0.0/24,fd00::/64"],
    ),
    (
        "runtimeclasses.node.k8s.io",
        "Name Handler Age",
        {"handler": "runc"},
        ["runc"],
    ),
    (
        "poddisruptionbudgets.policy",
        "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
        {"spec": {"maxUnavailable": 1}, "status": {"disruptionsAllowed": 0}},
        ["N/A", "1", 0],
    ),
    *(
        (
            f"{kind}.rbac.authorization.k8s.io",
            "Name Role Age users groups serviceaccounts",
            {
                "roleRef": {"kind": "ClusterRole", "name": "r"},
                "subjects": [{"kind": "Group", "name": "g"}],
            },
            ["ClusterRole/r", AGE, "", "g", ""],
        )
        for kind in ("clusterrolebindings", "rolebindings")
    ),
    ("clusterroles.rbac.authorization.k8s.io", "Name Created_At", {}, []),
    ("roles.rbac.authorization.k8s.io", "Name Created_At", {}, []),
    ("deviceclasses.resource.k8s.io", "Name Age", {}, []),
    ("devicetaintrules.resource.k8s.io", "Name Age", {}, []),
    ("resourceclaims.resource.k8s.io", "Name State Age", {"status": {}}, ["pending"]),
    ("resourceclaimtemplates.resource.k8s.io", "Name Age", {}, []),
    (
        "resourcepoolstatusrequests.resource.k8s.io",
        "Name Driver Total Available Allocated Unavailable Errors Age",
        {"spec": {"driver": "d"}},
        ["d", 0, 0, 0, 0, 0],
    ),
    (
        "resourceslices.resource.k8s.io",
        "Name Node Driver Pool Age",
        {"spec": {"driver": "d", "pool": {"name": "p"}}},
        ["", "d", "p"],
    ),
    ("podgroups.scheduling.k8s.io", "Name Age", {}, []),
    ("workloads.scheduling.k8s.io", "Name Age", {}, []),
    (
        "priorityclasses.scheduling.k8s.io",
        "Name Value Global-Default Age PreemptionPolicy",
        {"value": 5, "globalDefault": True, "preemptionPolicy": "Never"},
        [5, True, AGE, "Never"],
    ),
    (
        "csidrivers.storage.k8s.io",
        (
            "Name AttachRequired PodInfoOnMount StorageCapacity TokenRequests "
            "RequiresRepublish Modes Age"
        ),
        {
            "spec": {
                "attachRequired": True,
                "podInfoOnMount": False,
                "storageCapacity": False,
                "requiresRepublish": False,
                "volumeLifecycleModes": ["Persistent"],
            }
        },
        [True, False, False, "<unset>", False, "Persistent"],
    ),
    ("csinodes.storage.k8s.io", "Name Drivers Age", {"spec": {"drivers": [{}]}}, [1]),
    (
        "csistoragecapacities.storage.k8s.io",
        "Name StorageClassName Capacity",
        {"storageClassName": "fast"},
        ["fast", "<unset>"],
    ),
    (
        "storageclasses.storage.k8s.io",
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
        {"provisioner": "p", "reclaimPolicy": "Delete"},
        ["p", "Delete", "<unset>", "false"],
    ),
    (
        "volumeattachments.storage.k8s.io",
        "Name Attacher PV Node Attached Age",
        {"spec": {"attacher": "a", "source": {}, "nodeName": "n"}, "status": {}},
        ["a", "", "n", False],
    ),
    (
        "volumeattributesclasses.storage.k8s.io",
        "Name DriverName Age",
        {"driverName": "d"},
        ["d"],
    ),
    (
        "storageversionmigrations.storagemigration.k8s.io",
        "Name Resource Status",
        {"spec": {"resource": {"resource": "pods"}}, "status": {}},
        ["pods", ""],
    ),
]
"""The resource, its columns, an object, and its cells after its name.

The age at the end is left out. Without columns, those of the row before hold.
"""


def kind_of(resource: str) -> Kind:
    return next(each for each in find_kinds() if each.resource == resource)


@pytest.mark.parametrize(("resource", "columns", "obj", "cells"), ROWS)
def test_a_table_is_that_of_upstream(
    resource: str, columns: str, obj: JSON, cells: list[Any]
) -> None:
    """By its columns and its cells."""
    strategy = kind_of(resource).strategy
    titles = [
        (each.title.lower() if each.priority else each.title).replace(" ", "_")
        for each in strategy.table_columns()
    ]
    assert columns in ("", " ".join(titles))
    if titles == ["Name", "Status", "Message", "Error"]:
        return
    given = {**obj, "metadata": {"name": "a", "creationTimestamp": CREATED}}
    row = strategy.cells(given, NOW)
    if titles[0] == "Last_Seen":
        expected = [*cells, "a"]
    else:
        end = {"Age": AGE, "Created_At": CREATED}.get(titles[-1])
        expected = ["a", *cells, *([end] if end else [])]
    assert row == expected


def test_every_kind_has_its_table_here() -> None:
    """Those that are stored."""
    shown = {resource for resource, *_ in ROWS} | ELSEWHERE
    assert {kind.resource for kind in find_kinds() if "list" in kind.verbs} <= shown
