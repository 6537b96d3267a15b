"""Workloads and claims that a server refuses, except jobs."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

NEGATIVE = "must be greater than or equal to 0"
ROLLING = "spec.updateStrategy.rollingUpdate"
CLAIM: JSON = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def strategy(kind: str, **rolling: Any) -> JSON:
    more = {"rollingUpdate": rolling} if rolling else {}
    return {"updateStrategy": {"type": kind, **more}}


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        (
            "StatefulSet",
            {"metadata": {"name": "a.b"}},
            (
                'metadata.name: Invalid value: "a.b": a lowercase RFC 1123 label '
                "must consist of lower case alphanumeric characters or '-', and "
                "must start and end with an alphanumeric character (e.g. "
                "'my-name',  or '123-abc', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ),
        ),
        (
            "StatefulSet",
            {"spec": {"podManagementPolicy": "Odd"}},
            (
                'spec.podManagementPolicy: Invalid value: "Odd": must be '
                "'OrderedReady' or 'Parallel'"
            ),
        ),
        (
            "StatefulSet",
            {"spec": strategy("Odd")},
            "spec.updateStrategy: must be 'RollingUpdate' or 'OnDelete'",
        ),
        (
            "StatefulSet",
            {"spec": strategy("OnDelete", partition=1)},
            f"{ROLLING}: only allowed for updateStrategy 'RollingUpdate'",
        ),
        (
            "StatefulSet",
            {"spec": strategy("RollingUpdate", partition=-1)},
            f"{ROLLING}.partition: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "StatefulSet",
            {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Odd"}}},
            (
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported "
                'value: "Odd": supported values: "Retain", "Delete"'
            ),
        ),
        (
            "StatefulSet",
            {"spec": {"replicas": -1}},
            f"spec.replicas: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "StatefulSet",
            {"spec": {"ordinals": {"start": -1}}},
            f"spec.ordinals.start: Invalid value: -1: {NEGATIVE}",
        ),
        ("StatefulSet", {"spec": {"selector": None}}, "spec.selector: Required value"),
        (
            "StatefulSet",
            {"spec": {"selector": {"matchLabels": None}}},
            (
                "spec.selector: Invalid value: {}: empty selector is invalid for "
                "statefulset"
            ),
        ),
        (
            "StatefulSet",
            {"spec": {"selector": {"matchLabels": {"x": "y"}}}},
            (
                "spec.template.metadata.labels: `selector` does not match template "
                "`labels`"
            ),
        ),
        (
            "StatefulSet",
            {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
            (
                'spec.template.spec.restartPolicy: Unsupported value: "Never": '
                'supported values: "Always"'
            ),
        ),
        (
            "StatefulSet",
            {"spec": {"template": {"spec": {"activeDeadlineSeconds": 1}}}},
            (
                "spec.template.spec.activeDeadlineSeconds: Forbidden: "
                "activeDeadlineSeconds in StatefulSet is not Supported"
            ),
        ),
        (
            "StatefulSet",
            {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "x"}}]}},
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ),
        (
            "DaemonSet",
            {"spec": {"selector": {"matchLabels": None}}},
            "spec.selector: Invalid value: {}: empty selector is invalid for daemonset",
        ),
        (
            "DaemonSet",
            {"spec": strategy("RollingUpdate", maxSurge=1)},
            (
                f"{ROLLING}.maxSurge: Invalid value: 1: may not be set when "
                "maxUnavailable is non-zero"
            ),
        ),
        (
            "DaemonSet",
            {"spec": strategy("RollingUpdate", maxUnavailable=0)},
            f"{ROLLING}.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
        ),
        (
            "DaemonSet",
            {"spec": strategy("RollingUpdate", maxUnavailable="101%")},
            (
                f'{ROLLING}.maxUnavailable: Invalid value: "101%": must not be '
                "greater than 100%"
            ),
        ),
        (
            "DaemonSet",
            {"spec": strategy("Odd")},
            (
                "spec.updateStrategy: Unsupported value: "
                '{"Type":"Odd","RollingUpdate":null}: supported values: '
                '"RollingUpdate", "OnDelete"'
            ),
        ),
        (
            "DaemonSet",
            {"spec": {"minReadySeconds": -1}},
            f"spec.minReadySeconds: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "ControllerRevision",
            {"data": None},
            "data: Required value: data is mandatory",
        ),
        (
            "ControllerRevision",
            {"revision": -1},
            f"revision: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "CronJob",
            {"metadata": {"name": "a" * 53}},
            (
                f'metadata.name: Invalid value: "{"a" * 53}": must be no more than '
                "52 characters"
            ),
        ),
        ("CronJob", {"spec": {"schedule": None}}, "spec.schedule: Required value"),
        (
            "CronJob",
            {"spec": {"schedule": "60 * * * *"}},
            (
                'spec.schedule: Invalid value: "60 * * * *": end of range (60) '
                "above maximum (59): 60"
            ),
        ),
        (
            "CronJob",
            {"spec": {"schedule": "TZ=UTC * * * * *"}},
            (
                'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ '
                "or CRON_TZ in schedule, use timeZone field instead"
            ),
        ),
        (
            "CronJob",
            {"spec": {"timeZone": ""}},
            (
                'spec.timeZone: Invalid value: "": timeZone must be nil or '
                "non-empty string"
            ),
        ),
        (
            "CronJob",
            {"spec": {"timeZone": "Mars/Phobos"}},
            (
                'spec.timeZone: Invalid value: "Mars/Phobos": unknown time zone '
                "Mars/Phobos"
            ),
        ),
        (
            "CronJob",
            {"spec": {"timeZone": "Local"}},
            (
                'spec.timeZone: Invalid value: "Local": timeZone must be an '
                "explicit time zone as defined in https://www.iana.org/time-zones"
            ),
        ),
        (
            "CronJob",
            {"spec": {"concurrencyPolicy": "Odd"}},
            (
                'spec.concurrencyPolicy: Unsupported value: "Odd": supported '
                'values: "Allow", "Forbid", "Replace"'
            ),
        ),
        (
            "CronJob",
            {"spec": {"startingDeadlineSeconds": -1}},
            f"spec.startingDeadlineSeconds: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "CronJob",
            {"spec": {"failedJobsHistoryLimit": -1}},
            f"spec.failedJobsHistoryLimit: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "CronJob",
            {"spec": {"jobTemplate": {"spec": {"manualSelector": True}}}},
            (
                "spec.jobTemplate.spec.manualSelector: Unsupported value: true: "
                'supported values: "nil", "false"'
            ),
        ),
        (
            "CronJob",
            {"spec": {"jobTemplate": {"spec": {"parallelism": -1}}}},
            f"spec.jobTemplate.spec.parallelism: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "CronJob",
            {
                "spec": {
                    "jobTemplate": {"spec": {"selector": {"matchLabels": {"a": "b"}}}}
                }
            },
            "spec.jobTemplate.spec.selector: `selector` will be auto-generated",
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"accessModes": None}},
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"accessModes": ["Odd"]}},
            (
                'spec.accessModes: Unsupported value: "Odd": supported values: '
                '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", '
                '"ReadWriteOncePod"'
            ),
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"resources": None}},
            "spec.resources[storage]: Required value",
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"resources": {"requests": {"storage": "0"}}}},
            'spec.resources[storage]: Invalid value: "0": must be greater than zero',
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"volumeMode": "Odd"}},
            (
                'spec.volumeMode: Unsupported value: "Odd": supported values: '
                '"Block", "Filesystem"'
            ),
        ),
        (
            "PersistentVolume",
            {"spec": {"hostPath": None}},
            "spec: Required value: must specify a volume type",
        ),
        (
            "PersistentVolume",
            {"spec": {"nfs": {"server": "s", "path": "/"}}},
            "spec.nfs: Forbidden: may not specify more than 1 volume type",
        ),
        (
            "PersistentVolume",
            {"spec": {"capacity": None}},
            "spec.capacity: Required value",
        ),
        (
            "PersistentVolume",
            {"spec": {"persistentVolumeReclaimPolicy": "Odd"}},
            (
                'spec.persistentVolumeReclaimPolicy: Unsupported value: "Odd": '
                'supported values: "Delete", "Recycle", "Retain"'
            ),
        ),
        (
            "PriorityClass",
            {"value": 2_000_000_000},
            (
                "value: Forbidden: maximum allowed value of a user defined "
                "priority is 1000000000"
            ),
        ),
        (
            "PriorityClass",
            {"preemptionPolicy": "Odd"},
            (
                'preemptionPolicy: Unsupported value: "Odd": supported values: '
                '"PreemptLowerPriority", "Never"'
            ),
        ),
    ],
)
async def test_a_wrong_object_is_refused(
    cluster: Cluster, kind: str, change: JSON, expected: str
) -> None:
    """With upstream's message."""
    with pytest.raises(Refusal) as caught:
        create(cluster, kind, change)
    assert expected in causes(caught.value)


IMMUTABLE_SET = (
    "spec: Forbidden: updates to statefulset spec for fields other "
    "than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' "
    "and 'minReadySeconds' are forbidden"
)


@pytest.mark.parametrize(
    ("kind", "before", "after", "expected"),
    [
        ("StatefulSet", {}, {"spec": {"serviceName": "x"}}, IMMUTABLE_SET),
        (
            "StatefulSet",
            {},
            {"spec": {"podManagementPolicy": "Parallel"}},
            IMMUTABLE_SET,
        ),
        ("StatefulSet", {}, {"spec": {"volumeClaimTemplates": [CLAIM]}}, IMMUTABLE_SET),
        (
            "StatefulSet",
            {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}},
            {"spec": {"selector": {"matchLabels": {"x": "y"}}}},
            IMMUTABLE_SET,
        ),
        (
            "DaemonSet",
            {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}},
            {"spec": {"selector": {"matchLabels": {"x": "y"}}}},
            "spec.selector: field is immutable",
        ),
        ("ControllerRevision", {}, {"data": {"x": "y"}}, "data: field is immutable"),
        (
            "PersistentVolumeClaim",
            {"spec": {"storageClassName": "a"}},
            {"spec": {"storageClassName": "b"}},
            (
                "spec: Forbidden: spec is immutable after creation except "
                "resources.requests and volumeAttributesClassName for bound claims\n"
                '-  "storageClassName": "a",\n+  "storageClassName": "b",\n'
            ),
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"volumeName": "a"}},
            {"spec": {"volumeName": "b"}},
            (
                "spec: Forbidden: spec is immutable after creation except "
                "resources.requests and volumeAttributesClassName for bound claims\n"
                '-  "volumeName": "a",\n+  "volumeName": "b",\n'
            ),
        ),
        (
            "PersistentVolume",
            {},
            {"spec": {"hostPath": {"path": "/other"}}},
            (
                "spec.persistentvolumesource: Forbidden: "
                "spec.persistentvolumesource is immutable after creation"
            ),
        ),
        (
            "PersistentVolume",
            {},
            {"spec": {"volumeMode": "Block"}},
            'spec.volumeMode: Invalid value: "Block": field is immutable',
        ),
        (
            "PriorityClass",
            {},
            {"value": 7},
            "value: Forbidden: may not be changed in an update.",
        ),
        (
            "Pod",
            {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
            {"spec": {"tolerations": []}},
            (
                "spec.tolerations: Forbidden: existing toleration can not be "
                "modified except its tolerationSeconds"
            ),
        ),
    ],
)
async def test_immutable_fields_cannot_be_changed(
    cluster: Cluster, kind: str, before: JSON, after: JSON, expected: str
) -> None:
    """With upstream's message."""
    obj = create(cluster, kind, before)
    with pytest.raises(Refusal) as caught:
        update(cluster, obj, after)
    assert expected in causes(caught.value)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (
            "StatefulSet",
            {},
            {"replicas": 2, "minReadySeconds": 1, "revisionHistoryLimit": 1},
        ),
        (
            "StatefulSet",
            {},
            {"ordinals": {"start": 3}, **strategy("RollingUpdate", partition=2)},
        ),
        (
            "StatefulSet",
            {},
            {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
        ),
        (
            "DaemonSet",
            {},
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}},
        ),
        (
            "CronJob",
            {},
            {"schedule": "@every 36h", "timeZone": "Asia/Kolkata", "suspend": True},
        ),
        ("PersistentVolumeClaim", {}, {"volumeName": "a", "storageClassName": "b"}),
        ("PersistentVolume", {}, {"persistentVolumeReclaimPolicy": "Delete"}),
    ],
)
async def test_the_rest_can_be_changed(
    cluster: Cluster, kind: str, before: JSON, after: JSON
) -> None:
    """A change of a workload is a new generation."""
    obj = create(cluster, kind, before)
    changed = update(cluster, obj, {"spec": after})
    assert changed["metadata"].get("generation", 2) == 2
    assert changed["spec"] != obj["spec"]


@pytest.mark.parametrize(
    ("kind", "before", "after", "expected"),
    [
        (
            "StatefulSet",
            {},
            {"currentReplicas": -1},
            f"status.currentReplicas: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "StatefulSet",
            {},
            {"replicas": 1, "updatedReplicas": 2},
            (
                "status.updatedReplicas: Invalid value: 2: cannot be greater than "
                "status.replicas"
            ),
        ),
        (
            "StatefulSet",
            {},
            {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
            (
                "status.availableReplicas: Invalid value: 2: cannot be greater "
                "than status.readyReplicas"
            ),
        ),
        (
            "StatefulSet",
            {"collisionCount": 2},
            {"collisionCount": 1},
            "status.collisionCount: Invalid value: 1: cannot be decremented",
        ),
        (
            "DaemonSet",
            {},
            {"numberReady": -1},
            f"status.numberReady: Invalid value: -1: {NEGATIVE}",
        ),
        (
            "DaemonSet",
            {"collisionCount": 1},
            {"collisionCount": 0},
            "status.collisionCount: Invalid value: 0: cannot be decremented",
        ),
    ],
)
async def test_a_wrong_status_is_refused(
    cluster: Cluster, kind: str, before: JSON, after: JSON, expected: str
) -> None:
    """With upstream's message."""
    obj = update(cluster, create(cluster, kind), {"status": before}, "status")
    with pytest.raises(Refusal) as caught:
        update(cluster, obj, {"status": after}, "status")
    assert expected in causes(caught.value)


async def test_a_schedule_with_a_zone_may_stay(cluster: Cluster) -> None:
    """Old servers allowed it; only a new one is refused."""
    cron_job = create(cluster, "CronJob")
    collection = cluster.server.storage.collection("cronjobs.batch")
    old = {**cron_job, "spec": {**cron_job["spec"], "schedule": "TZ=UTC * * * * *"}}
    collection.put(("default", "a"), old)
    changed = update(cluster, old, {"spec": {"schedule": "TZ=UTC 1 * * * *"}})
    assert changed["spec"]["schedule"] == "TZ=UTC 1 * * * *"
    with pytest.raises(Refusal, match="cannot use both timeZone field and TZ"):
        update(cluster, changed, {"spec": {"timeZone": "Etc/UTC"}})


async def test_a_bound_claim_can_be_made_larger(cluster: Cluster) -> None:
    """Not smaller, not before it is bound, and only if its class allows that."""
    create(cluster, "StorageClass", {"allowVolumeExpansion": True})
    claim = create(
        cluster, "PersistentVolumeClaim", {"spec": {"storageClassName": "a"}}
    )

    def sized(size: str) -> JSON:
        return {"spec": {"resources": {"requests": {"storage": size}}}}

    with pytest.raises(Refusal, match="spec is immutable after creation"):
        update(cluster, claim, sized("2Gi"))
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    claim = update(cluster, claim, {"status": bound}, "status")
    claim = update(cluster, claim, sized("2Gi"))
    assert claim["spec"]["resources"] == {"requests": {"storage": "2Gi"}}
    with pytest.raises(Refusal) as caught:
        update(cluster, claim, sized("1Gi"))
    assert causes(caught.value) == [
        (
            "spec.resources.requests.storage: Forbidden: field can not be less "
            "than status.capacity"
        )
    ]


async def test_an_empty_storage_class_is_kept(cluster: Cluster) -> None:
    """It means no class; an absent one means the default class."""
    claim = create(cluster, "PersistentVolumeClaim", {"spec": {"storageClassName": ""}})
    assert claim["spec"]["storageClassName"] == ""


async def test_max_unavailable_of_a_stateful_set_is_dropped(cluster: Cluster) -> None:
    """Its feature gate is off, as upstream."""
    rolling = strategy("RollingUpdate", partition=1, maxUnavailable=2)
    stateful_set = create(cluster, "StatefulSet", {"spec": rolling})
    expected = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    assert stateful_set["spec"]["updateStrategy"] == expected
    changed = update(cluster, stateful_set, {"spec": rolling})
    assert changed["metadata"]["generation"] == 1


async def test_max_unavailable_is_stored_with_its_feature_gate() -> None:
    """It is 1 by default then."""
    gates = FeatureGates({"MaxUnavailableStatefulSet": True})
    cluster = Cluster(features=gates)
    stateful_set = create(cluster, "StatefulSet")
    rolling = stateful_set["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling == {"partition": 0, "maxUnavailable": 1}
    more = strategy("RollingUpdate", maxUnavailable="50%")
    changed = update(cluster, stateful_set, {"spec": more})
    rolling = changed["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling == {"partition": 0, "maxUnavailable": "50%"}
    for wrong, why in ((0, "cannot be 0"), ("101%", "must not be greater than 100%")):
        more = strategy("RollingUpdate", maxUnavailable=wrong)
        with pytest.raises(Refusal, match=why):
            update(cluster, changed, {"spec": more})


async def test_a_daemon_sets_template_has_a_generation(cluster: Cluster) -> None:
    """In an annotation that users cannot change."""
    name = "deprecated.daemonset.template.generation"
    daemon_set = create(cluster, "DaemonSet")
    assert daemon_set["metadata"]["annotations"] == {name: "1"}
    change = {"metadata": {"annotations": {name: "7", "x": "y"}}}
    daemon_set = update(cluster, daemon_set, change)
    assert daemon_set["metadata"]["annotations"] == {name: "1", "x": "y"}
    labels = {"template": {"metadata": {"labels": {"x": "y"}}}}
    daemon_set = update(cluster, daemon_set, {"spec": labels})
    assert daemon_set["metadata"]["annotations"] == {name: "2", "x": "y"}
    daemon_set = update(cluster, daemon_set, {"spec": {"minReadySeconds": 1}})
    removed = {"metadata": {"annotations": None}, "status": {"numberReady": 1}}
    daemon_set = update(cluster, daemon_set, removed, "status")
    assert daemon_set["metadata"]["annotations"] == {name: "2"}
    assert daemon_set["metadata"]["generation"] == 3


async def test_the_claims_of_a_stateful_set_have_defaults(cluster: Cluster) -> None:
    """Those of claims."""
    spec = {"volumeClaimTemplates": [CLAIM]}
    stateful_set = create(cluster, "StatefulSet", {"spec": spec})
    assert stateful_set["spec"]["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {**CLAIM["spec"], "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]
