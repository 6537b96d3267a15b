"""States of missing pods in which the nearest answer would be a wrong one."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.batch.v1 import CRON_JOBS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import LONG_AGO, Given, before, chains, event, explained, named

pytestmark = pytest.mark.looptime

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "image": "a"}]},
}
FULL = (
    'pods "web-x" is forbidden: exceeded quota: small, requested: pods=1, used: '
    "pods=1, limited: pods=1"
)


def replica_set(message: str = "") -> dict[str, Any]:
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": message,
        "lastTransitionTime": LONG_AGO,
    }
    return {
        "metadata": named("web", generation=1),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
        },
        "status": {
            "replicas": 0,
            "observedGeneration": 1,
            "conditions": [failure] if message else [],
        },
    }


async def test_a_quota_that_is_gone_does_not_refuse_pods_any_more(
    cluster: Cluster,
) -> None:
    """The condition stays until the controller tries again."""
    found = await explained(cluster, REPLICASETS, replica_set(FULL))
    (refused,) = found.causes
    assert chains(found.causes) == [
        (
            "QuotaExceeded",
            State.PROGRESSING,
            [("QuotaHasRoom", State.PROGRESSING, [])],
        )
    ]
    assert refused.because[0].what == "the quota does not exist any more"


async def test_a_right_that_a_controller_lacks_is_no_missing_service_account(
    cluster: Cluster,
) -> None:
    message = (
        'pods is forbidden: User "system:serviceaccount:kube-system:replicaset-'
        'controller" cannot create resource "pods" in API group "" in the namespace '
        '"shop"'
    )
    found = await explained(cluster, REPLICASETS, replica_set(message))
    assert [(each.code, each.remedy) for each in found.causes] == [
        (
            "CreationRefused",
            (
                "give this user the right to create them: see that the role of its "
                "controller exists, and is bound"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("created", "code"),
    [(before(40), "PodsMissing"), (before(50), "WebhookDenied")],
)
async def test_a_refusal_before_a_creation_is_over(
    cluster: Cluster, created: str, code: str
) -> None:
    """Events stay for an hour; the controller has created pods since."""
    denied = 'admission webhook "w.example.com" denied the request: no'
    events = [
        event("FailedCreate", denied, before(50)),
        event("SuccessfulCreate", "Created pod: web-y", created),
    ]
    found = await explained(cluster, REPLICASETS, replica_set(), Given(events=events))
    assert [each.code for each in found.causes] == [code]


async def test_a_cron_job_lacks_a_job_and_no_pod(cluster: Cluster) -> None:
    refused = event("FailedCreate", "no such thing.", before(1))
    body = {
        "metadata": named("report"),
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {}}},
    }
    body["spec"]["jobTemplate"]["spec"] = {"template": TEMPLATE}
    found = await explained(cluster, CRON_JOBS, body, Given(events=[refused]))
    (run, _) = found.causes
    assert [each.what for each in run.because] == [
        "a job is missing: the API server refuses new ones: no such thing"
    ]


def unscheduled(message: str, **status: Any) -> dict[str, Any]:
    """Return a pod with a claim that fits no node."""
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": LONG_AGO,
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return {
        "metadata": named("web"),
        "spec": {"containers": [{"name": "app"}], "volumes": [volume]},
        "status": {"phase": "Pending", "conditions": [scheduled], **status},
    }


CLASS = {
    "metadata": {"name": "fast"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}
NO_CPU = "0/3 nodes are available: 3 Insufficient cpu."


def claim(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": named("data", annotations=annotations),
        "spec": {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    }


async def test_a_claim_that_waits_for_its_pod_is_not_why_the_pod_has_no_node(
    cluster: Cluster,
) -> None:
    """No driver makes a volume before the scheduler has chosen a node."""
    server = Given(storageclasses=[CLASS], persistentvolumeclaims=[claim()])
    found = await explained(cluster, PODS, unscheduled(NO_CPU), server)
    assert chains(found.causes) == [("Unschedulable", State.STUCK, [])]
    assert found.causes[0].remedy == (
        "lower the requests of the pod, or add nodes with more room"
    )


async def test_a_claim_with_a_chosen_node_waits_for_its_driver(
    cluster: Cluster,
) -> None:
    chosen = claim(**{"volume.kubernetes.io/selected-node": "node-0"})
    server = Given(storageclasses=[CLASS], persistentvolumeclaims=[chosen])
    found = await explained(cluster, PODS, unscheduled(NO_CPU), server)
    assert chains(found.causes) == [
        ("Unschedulable", State.STUCK, [("NoProvisioner", State.STUCK, [])])
    ]


async def test_a_local_class_without_volumes_keeps_a_pod_from_all_nodes(
    cluster: Cluster,
) -> None:
    local = {**CLASS, "provisioner": "kubernetes.io/no-provisioner"}
    server = Given(storageclasses=[local], persistentvolumeclaims=[claim()])
    found = await explained(cluster, PODS, unscheduled("x"), server)
    assert chains(found.causes) == [
        ("Unschedulable", State.STUCK, [("NoVolume", State.STUCK, [])])
    ]


async def test_a_claim_whose_pod_fits_no_node_does_not_change_by_itself(
    cluster: Cluster,
) -> None:
    server = Given(storageclasses=[CLASS], pods=[unscheduled(NO_CPU)])
    found = await explained(cluster, CLAIMS, claim(), server)
    assert [(each.code, each.state, each.remedy) for each in found.causes] == [
        (
            "WaitForFirstConsumer",
            State.STUCK,
            "see why the pod has no node: controller-manager explain pod/web -n shop",
        )
    ]


async def test_a_pod_for_which_others_leave_a_node_is_not_stuck(
    cluster: Cluster,
) -> None:
    body = unscheduled(NO_CPU, nominatedNodeName="node-1")
    body["spec"]["volumes"] = []
    found = await explained(cluster, PODS, body)
    assert [(each.state, each.what, each.remedy) for each in found.causes] == [
        (
            State.PROGRESSING,
            (
                "none of 3 nodes fits: 3 Insufficient cpu; pods with a lower priority "
                "leave the node node-1 for it"
            ),
            "",
        )
    ]


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        (
            (
                'Error creating: pods "web-x" is forbidden: cpu max limit to request '
                "ratio per Container is 2, but provided ratio is 4.000000"
            ),
            "LimitRange",
            (
                "cpu max limit to request ratio per Container is 2, but provided ratio "
                "is 4.000000"
            ),
        ),
        (
            (
                'create Pod web-0 in StatefulSet web failed error: pods "web-0" is '
                "forbidden: maximum cpu usage per Pod is 1, but limit is 2"
            ),
            "LimitRange",
            "maximum cpu usage per Pod is 1, but limit is 2",
        ),
        (
            (
                'Error creating: admission webhook "a.b" denied the request: this is '
                "forbidden: ask us"
            ),
            "WebhookDenied",
            'admission webhook "a.b" denied the request: this is forbidden: ask us',
        ),
        (
            "pods is forbidden: User x cannot create resource y",
            "CreationRefused",
            "User x cannot create resource y",
        ),
    ],
)
async def test_a_refusal_is_told_without_the_name_of_the_object(
    cluster: Cluster, message: str, code: str, reason: str
) -> None:
    found = await explained(cluster, REPLICASETS, replica_set(message))
    assert [(each.code, each.what) for each in found.causes] == [
        (code, f"a pod is missing: the API server refuses new ones: {reason}")
    ]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('violates PodSecurity "restricted:latest"', "PodSecurity"),
        ("no PriorityClass with name high was found", "PriorityClassMissing"),
        ("failed quota: small: must specify limits.cpu", "QuotaNeedsAmounts"),
        ("maximum cpu usage per Container is 1", "LimitRange"),
        ("something else", "CreationRefused"),
    ],
)
async def test_a_refusal_is_told_apart_by_its_message(
    cluster: Cluster, message: str, code: str
) -> None:
    refused = replica_set(f'pods "web-x" is forbidden: {message}')
    found = await explained(cluster, REPLICASETS, refused)
    assert [(each.code, each.state, each.since) for each in found.causes] == [
        (code, State.STUCK, LONG_AGO)
    ]


async def test_a_webhook_that_fails_is_told_from_one_that_denies(
    cluster: Cluster,
) -> None:
    message = 'Internal error occurred: failed calling webhook "check.example.com"'
    found = await explained(cluster, REPLICASETS, replica_set(message))
    assert [each.code for each in found.causes] == ["WebhookFailed"]
