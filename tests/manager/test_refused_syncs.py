"""Syncs whose objects the API server refuses do not count as failures of the daemon."""

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES, ConfigMap
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.rbac.v1 import CLUSTER_ROLES
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.version import USER_AGENT
from tests.clusters import ROOT_CA, Cluster, make_config, run_manager

pytestmark = pytest.mark.looptime

CONTROLLERS = (
    "cronjob-controller",
    "daemonset-controller",
    "ephemeral-volume-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourcequota-controller",
    "statefulset-controller",
)
OTHERS = (
    "namespace-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
)
"""Those that create nothing."""

POD: JSON = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "a"}]},
}
CLAIM: JSON = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
SELECTED: JSON = {"selector": {"matchLabels": {"app": "web"}}, "template": POD}
JOB: JSON = {"template": {**POD, "spec": {**POD["spec"], "restartPolicy": "Never"}}}


def outcomes(registry: CollectorRegistry) -> dict[str, set[str]]:
    """Return the outcomes that the syncs of each controller had, without requeues."""
    found: dict[str, set[str]] = {name: set() for name in CONTROLLERS}
    for metric in registry.collect():
        for sample in metric.samples:
            if (
                sample.name == "controller_sync_duration_seconds_count"
                and sample.value
                and sample.labels["outcome"] != "requeue"
            ):
                found[sample.labels["controller"]].add(sample.labels["outcome"])
    return found


async def syncs_of(
    cluster: Cluster, connections: Connections | None = None
) -> dict[str, set[str]]:
    """Run the controllers for a minute; return the outcomes of their syncs."""
    registry = CollectorRegistry()
    async with run_manager(
        connections or Connections(cluster.transport, root_ca=ROOT_CA),
        cluster.clock,
        cluster.rng,
        make_config(controllers=CONTROLLERS),
        registry=registry,
    ):
        await asyncio.sleep(70)
    return outcomes(registry)


def add_workloads(cluster: Cluster) -> None:
    cluster.add("Node", "node-0")
    cluster.add("ReplicaSet", "web", "apps/v1", spec=SELECTED)
    cluster.add("DaemonSet", "web", "apps/v1", spec=SELECTED)
    cluster.add("Job", "once", "batch/v1", spec=JOB)
    cluster.add(
        "ReplicationController",
        "old",
        spec={"selector": {"app": "web"}, "template": POD},
    )
    cluster.add(
        "StatefulSet", "web", "apps/v1", spec={**SELECTED, "serviceName": "web"}
    )
    cluster.add(
        "StatefulSet",
        "data",
        "apps/v1",
        spec={**SELECTED, "serviceName": "web", "volumeClaimTemplates": [CLAIM]},
    )
    cluster.add(
        "CronJob",
        "often",
        "batch/v1",
        spec={"schedule": "* * * * *", "jobTemplate": {"spec": JOB}},
    )


@pytest.mark.slow
async def test_a_full_quota_refuses_a_namespaces_syncs(cluster: Cluster) -> None:
    volume = {
        "name": "a",
        "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM["spec"]}},
    }
    cluster.add("Pod", "lone", spec={**POD["spec"], "volumes": [volume]})
    hard = {"pods": "1", "count/jobs.batch": "1", "persistentvolumeclaims": "0"}
    used = {**hard}
    add_workloads(cluster)
    cluster.add(
        "ResourceQuota", "q", spec={"hard": hard}, status={"hard": hard, "used": used}
    )
    found = await syncs_of(cluster)
    assert {name: each - {"success"} for name, each in found.items()} == {
        name: {"refused"} for name in CONTROLLERS
    } | {name: set() for name in OTHERS}


def add_limit(cluster: Cluster) -> None:
    limit = {"type": "Container", "maxLimitRequestRatio": {"cpu": "1"}}
    cluster.add("LimitRange", "small", spec={"limits": [limit]})


def add_policy(cluster: Cluster, operation: str = "CREATE") -> None:
    api = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": ["configmaps", "pods"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": 'User "a" cannot do that'}],
    }
    cluster.add("ValidatingAdmissionPolicy", "none", api, spec=spec)
    bound = {"policyName": "none", "validationActions": ["Deny"]}
    cluster.add("ValidatingAdmissionPolicyBinding", "none", api, spec=bound)


@pytest.mark.parametrize("add", [add_limit, add_policy])
async def test_admission_refuses_a_sync(
    cluster: Cluster, add: Callable[[Cluster], None]
) -> None:
    """The answer may have any code and reason."""
    add(cluster)
    cluster.add("ReplicaSet", "web", "apps/v1", spec=SELECTED)
    found = await syncs_of(cluster)
    assert found["replicaset-controller"] == {"refused"}


async def test_a_level_of_pod_security_refuses_a_sync(cluster: Cluster) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await cluster.client.patch(
        NAMESPACES, "", "default", {"metadata": {"labels": labels}}
    )
    cluster.add("ReplicaSet", "web", "apps/v1", spec=SELECTED)
    found = await syncs_of(cluster)
    assert found["replicaset-controller"] == {"refused"}


async def test_deletions_that_admission_denies_are_refusals(cluster: Cluster) -> None:
    """One sync tries several; the error names all of them."""
    cluster.add_namespace("work")
    for name in ("one", "two"):
        cluster.add("Pod", name, spec={**POD["spec"], "nodeName": "gone"})
        body = ConfigMap(metadata=ObjectMeta(name=name, namespace="work"))
        await cluster.client.create(CONFIG_MAPS, body)
    add_policy(cluster, "DELETE")
    await cluster.client.delete(NAMESPACES, "", "work", DeleteOptions())
    found = await syncs_of(cluster)
    assert found["pod-garbage-collector-controller"] == {"refused", "success"}
    assert found["namespace-controller"] == {"refused"}


async def test_a_right_that_a_controller_lacks_is_an_error() -> None:
    """Its syncs are forbidden as those of a full quota are; the operator must know."""
    cluster = Cluster(rbac=True)
    name = "system:controller:replicaset-controller"
    every = {"apiGroups": ["*"], "resources": ["*"]}
    rule = {**every, "verbs": ["get", "list", "watch", "update", "patch", "delete"]}
    await cluster.client.patch(CLUSTER_ROLES, "", name, {"rules": [rule]})
    cluster.add("ReplicaSet", "web", "apps/v1", spec=SELECTED)
    cluster.server.tokens.add("manager", User(MANAGER))
    connections = Connections(
        InMemoryTransport(cluster.server, "manager", USER_AGENT),
        anonymous=InMemoryTransport(cluster.server, user_agent=USER_AGENT),
        root_ca=ROOT_CA,
    )
    found = await syncs_of(cluster, connections)
    assert found["replicaset-controller"] == {"error"}
