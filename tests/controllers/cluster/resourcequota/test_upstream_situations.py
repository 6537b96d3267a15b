"""The situations of upstream's end-to-end tests (test/e2e/apimachinery)."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.controllers.cluster.resourcequota.counting import User, counting

pytestmark = pytest.mark.looptime


HARD = {
    "pods": "5",
    "services": "10",
    "services.nodeports": "1",
    "services.loadbalancers": "1",
    "replicationcontrollers": "10",
    "resourcequotas": "1",
    "cpu": "1",
    "memory": "500Mi",
    "configmaps": "2",
    "secrets": "10",
    "persistentvolumeclaims": "10",
    "requests.storage": "10Gi",
    "ephemeral-storage": "50Gi",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "10",
    "gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
    "requests.example.com/dongle": "3",
    "count/replicasets.apps": "5",
}
"""The quota of those tests (newTestResourceQuota)."""

CONTAINER = {"name": "c", "image": "app:v1"}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)


def pod_spec(limits: JSON | None = None, **requests: str) -> JSON:
    resources = {"requests": requests, "limits": limits or {}}
    return {"containers": [{**CONTAINER, "resources": resources}]}


@pytest.mark.parametrize(
    ("kind", "api", "plural", "spec", "charged"),
    [
        (
            "Service",
            "v1",
            "services",
            {"type": "NodePort", "ports": [{"port": 80}]},
            {"services": "1", "services.nodeports": "1"},
        ),
        (
            "Service",
            "v1",
            "services",
            {"type": "LoadBalancer", "ports": [{"port": 80}]},
            {
                "services": "1",
                "services.nodeports": "1",
                "services.loadbalancers": "1",
            },
        ),
        ("Secret", "v1", "secrets", None, {"secrets": "1"}),
        ("ConfigMap", "v1", "configmaps", None, {"configmaps": "1"}),
        (
            "Pod",
            "v1",
            "pods",
            pod_spec(
                {"example.com/dongle": "2"},
                cpu="500m",
                memory="252Mi",
                **{"ephemeral-storage": "30Gi", "example.com/dongle": "2"},
            ),
            {
                "pods": "1",
                "cpu": "500m",
                "memory": "252Mi",
                "ephemeral-storage": "30Gi",
                "requests.example.com/dongle": "2",
            },
        ),
        (
            "ReplicationController",
            "v1",
            "replicationcontrollers",
            {"replicas": 0, "selector": {"a": "b"}, "template": TEMPLATE},
            {"replicationcontrollers": "1"},
        ),
        (
            "ReplicaSet",
            "apps/v1",
            "replicasets",
            {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": TEMPLATE,
            },
            {"count/replicasets.apps": "1"},
        ),
        (
            "PersistentVolumeClaim",
            "v1",
            "persistentvolumeclaims",
            {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "gold",
            },
            {
                "persistentvolumeclaims": "1",
                "requests.storage": "1Gi",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
            },
        ),
    ],
)
async def test_a_quota_captures_the_life_of_an_object(
    user: User, kind: str, api: str, plural: str, spec: JSON | None, charged: JSON
) -> None:
    """Its creation is charged, its deletion frees all of it."""
    user.add_quota(HARD)
    nothing = {**dict.fromkeys(HARD, "0"), "resourcequotas": "1"}
    async with counting(user.cluster):
        await asyncio.sleep(1)
        assert user.used() == nothing
        parts = {} if spec is None else {"spec": spec}
        user.cluster.add(kind, "one", api, **parts)
        await asyncio.sleep(1)
        assert user.used() == {**nothing, **charged}
        found = user.stored("one", kind, api)
        if found["metadata"].get("finalizers"):
            await user.patch(plural, "one", {"metadata": {"finalizers": None}})
        await user.delete(plural, "one", api.rpartition("/")[0])
        await asyncio.sleep(1)
        assert user.used() == nothing


@pytest.mark.parametrize(
    "spec",
    [
        pod_spec(cpu="600m", memory="100Mi"),
        pod_spec(
            {"example.com/dongle": "2"},
            cpu="500m",
            memory="100Mi",
            **{"example.com/dongle": "2"},
        ),
    ],
)
async def test_a_pod_that_exceeds_the_remaining_quota_is_refused(
    user: User, spec: JSON
) -> None:
    """Also by an extended resource."""
    user.add_quota(HARD)
    async with counting(user.cluster):
        await asyncio.sleep(1)
        first = pod_spec(
            {"example.com/dongle": "2"},
            cpu="500m",
            memory="252Mi",
            **{"example.com/dongle": "2"},
        )
        user.cluster.add("Pod", "fits", spec=first)
        with pytest.raises(Refusal, match="exceeded quota: q"):
            user.cluster.add("Pod", "does-not", spec=spec)


def by_priority(operator: str, *values: str) -> JSON:
    requirement: JSON = {"scopeName": "PriorityClass", "operator": operator}
    if values:
        requirement["values"] = list(values)
    return {"matchExpressions": [requirement]}


@pytest.mark.parametrize(
    ("selector", "of_high", "of_low", "of_none"),
    [
        (by_priority("In", "high"), "1", "0", "0"),
        (by_priority("In", "high", "low"), "1", "1", "0"),
        (by_priority("NotIn", "high"), "0", "1", "1"),
        (by_priority("Exists"), "1", "1", "0"),
        (by_priority("DoesNotExist"), "0", "0", "1"),
    ],
)
async def test_a_quota_counts_the_pods_of_a_priority_class(
    user: User, selector: JSON, of_high: str, of_low: str, of_none: str
) -> None:
    """PriorityClass scope selectors: by admission and by recount alike."""
    for name, value in (("high", 100), ("low", 10)):
        body = {"metadata": {"name": name}, "value": value}
        user.cluster.add("PriorityClass", name, "scheduling.k8s.io/v1", **body)
    user.add_quota({"pods": "1"}, scopeSelector=selector)
    async with counting(user.cluster):
        await asyncio.sleep(1)
        cases = (("high", of_high), ("low", of_low), ("", of_none))
        for priority, expected in cases:
            named = {"priorityClassName": priority} if priority else {}
            user.add_pod("p", **named)
            assert user.used() == {"pods": expected}
            if expected == "1":
                with pytest.raises(Refusal, match="exceeded quota"):
                    user.add_pod("q", **named)
            wrong = {"status": {"used": {"pods": "9"}}}
            await user.patch("resourcequotas", "q", wrong, "status")
            await asyncio.sleep(301)
            assert user.used() == {"pods": expected}
            await user.delete("pods", "p")
            await asyncio.sleep(1)
            assert user.used() == {"pods": "0"}


async def test_a_quota_refuses_affinity_to_pods_of_other_namespaces(
    user: User,
) -> None:
    """Both with a list of namespaces and with a selector; others are free."""
    user.add_quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    async with counting(user.cluster):
        await asyncio.sleep(1)
        user.add_pod("plain")
        chosen: tuple[JSON, ...] = ({"namespaces": ["a"]}, {"namespaceSelector": {}})
        for fields in chosen:
            term = {"labelSelector": {}, "topologyKey": "zone", **fields}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            for kind in ("podAffinity", "podAntiAffinity"):
                with pytest.raises(Refusal, match="exceeded quota: q"):
                    user.add_pod("p", affinity={kind: required})


async def test_scopes_of_quality_and_of_deadlines(user: User) -> None:
    """Four quotas, and pods that belong to one or another of them."""
    for scope in ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort"):
        user.add_quota({"pods": "5"}, scope.lower(), scopes=[scope])
    async with counting(user.cluster):
        await asyncio.sleep(1)
        user.add_pod("a")
        user.add_pod("b", activeDeadlineSeconds=3600)
        user.cluster.add("Pod", "c", spec={"containers": [CONTAINER]})
        expected = {
            "terminating": {"pods": "1"},
            "notterminating": {"pods": "2"},
            "besteffort": {"pods": "1"},
            "notbesteffort": {"pods": "2"},
        }
        assert {name: user.used(name) for name in expected} == expected
        await asyncio.sleep(301)
        assert {name: user.used(name) for name in expected} == expected


async def test_a_quota_has_a_life(user: User) -> None:
    """Its limits are raised, lowered and dropped; others do not refer to it."""
    user.add_quota({"cpu": "1", "memory": "500Mi"})
    async with counting(user.cluster):
        await asyncio.sleep(1)
        await user.patch("resourcequotas", "q", {"spec": {"hard": {"memory": "750Mi"}}})
        await asyncio.sleep(1)
        assert user.status() == {
            "hard": {"cpu": "1", "memory": "750Mi"},
            "used": {"cpu": "0", "memory": "0"},
        }
        await user.patch("resourcequotas", "q", {"spec": {"hard": {"cpu": None}}})
        await asyncio.sleep(1)
        assert user.status() == {"hard": {"memory": "750Mi"}, "used": {"memory": "0"}}
        status = {"hard": {"memory": "1Gi"}, "used": {"memory": "1"}}
        await user.patch("resourcequotas", "q", {"status": status}, "status")
        await asyncio.sleep(301)
        assert user.status() == {"hard": {"memory": "750Mi"}, "used": {"memory": "0"}}
        await user.delete("resourcequotas", "q")
        await asyncio.sleep(1)
        user.add_pod("free", cpu="100")
