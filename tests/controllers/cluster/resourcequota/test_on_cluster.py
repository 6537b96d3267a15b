"""Quotas are counted on a cluster in memory, on virtual time."""

import asyncio
from dataclasses import dataclass, replace

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import Forbidden
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.cluster.resourcequota import ResourceQuotaOptions
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.controllers.cluster.resourcequota.counting import (
    User,
    Watching,
    config,
    controller_of,
    counting,
)
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)


async def test_a_new_quota_shows_its_limits_and_its_usage(user: User) -> None:
    user.add_pod("a")
    user.add_pod("b", cpu="0.5")
    labels = {"labels": {"team": "a"}, "finalizers": ["example.com/keep"]}
    user.cluster.add("ResourceQuota", "q")
    await user.patch("resourcequotas", "q", {"metadata": labels})
    await user.patch(
        "resourcequotas", "q", {"spec": {"hard": {"pods": "5", "cpu": "1000m"}}}
    )
    async with counting(user.cluster) as recording:
        await asyncio.sleep(3000)
    assert [(each.method, each.path, each.status) for each in recording.writes] == [
        ("PUT", "/api/v1/namespaces/default/resourcequotas/q/status", 200)
    ]
    stored = user.stored()
    assert stored["status"] == {
        "hard": {"cpu": "1", "pods": "5"},
        "used": {"cpu": "600m", "pods": "2"},
    }
    assert {name: stored["metadata"][name] for name in labels} == labels


async def test_the_api_server_charges_and_the_controller_frees(user: User) -> None:
    user.add_quota({"pods": "2", "requests.cpu": "250m"})
    async with counting(user.cluster) as recording:
        await asyncio.sleep(1)
        user.add_pod("a")
        user.add_pod("b")
        assert user.used() == {"pods": "2", "requests.cpu": "200m"}
        with pytest.raises(Refusal) as refused:
            user.add_pod("c")
        assert refused.value.message == (
            'pods "c" is forbidden: exceeded quota: q, requested: '
            "pods=1,requests.cpu=100m, used: pods=2,requests.cpu=200m, limited: "
            "pods=2,requests.cpu=250m"
        )
        await asyncio.sleep(40)
        assert len(recording.writes) == 1  # the status was true already
        await user.delete("pods", "a")
        await asyncio.sleep(0.2)
        assert user.used() == {"pods": "1", "requests.cpu": "100m"}
        user.add_pod("c")


async def test_a_pod_that_does_not_specify_limited_resources_is_refused(
    user: User,
) -> None:
    user.add_quota({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "9"})
    async with counting(user.cluster):
        await asyncio.sleep(1)
        with pytest.raises(Refusal) as refused:
            user.cluster.add(
                "Pod", "p", spec={"containers": [{"name": "c", "image": "app:v1"}]}
            )
    assert refused.value.message == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: c; '
        "requests.cpu for: c"
    )


@pytest.mark.parametrize(("is_on", "charged"), [(True, "2250m"), (False, "350m")])
async def test_api_server_and_controller_read_the_same_gate(
    is_on: bool, charged: str
) -> None:
    names = ("PodLevelResources", "InPlacePodLevelResourcesVerticalScaling")
    features = FeatureGates({} if is_on else dict.fromkeys(names, False))
    user = User(Cluster(features=features))
    user.add_quota({"requests.cpu": "9"})
    settings = replace(config(), features=features)
    async with counting(user.cluster, settings=settings) as recording:
        await asyncio.sleep(1)
        whole = {"requests": {"cpu": "2"}}
        user.add_pod("a", overhead={"cpu": "250m"}, resources=whole)
        assert user.used() == {"requests.cpu": charged}
        in_use = {"requests": {"cpu": "2250m"}}
        status = {"resources": in_use, "allocatedResources": in_use["requests"]}
        await user.patch("pods", "a", {"status": status}, "status")
        user.add_pod("b")
        await asyncio.sleep(1)
        user.add_pod("c")
        await user.delete("pods", "b")
        await asyncio.sleep(1)
        await user.delete("pods", "c")
        await asyncio.sleep(1)
        assert user.used() == {"requests.cpu": charged}
    assert len(recording.writes) == 3


async def test_without_a_period_nothing_is_recounted_by_itself(user: User) -> None:
    """As upstream's: 0 disables the recounts, and costs nothing."""
    user.add_quota({"pods": "5"})
    settings = config(ResourceQuotaOptions(sync_period=0.0))
    async with counting(user.cluster, settings=settings) as recording:
        await asyncio.sleep(1)
        status = {"hard": {"pods": "5"}, "used": {"pods": "3"}}
        await user.patch("resourcequotas", "q", {"status": status}, "status")
        await asyncio.sleep(3000)
        assert user.used() == {"pods": "3"}
    assert len(recording.writes) == 1


async def test_another_scope_selector_calls_for_a_recount(user: User) -> None:
    """Upstream notices it at the next recount of all quotas."""
    user.cluster.add("PriorityClass", "high", "scheduling.k8s.io/v1", value=1)
    user.add_pod("a", priorityClassName="high")
    user.add_pod("b")
    user.add_quota({"pods": "5"}, **_of_class("high"))
    async with counting(user.cluster) as recording:
        await asyncio.sleep(1)
        assert user.used() == {"pods": "1"}
        await user.patch("resourcequotas", "q", {"spec": _of_class("low")})
        await asyncio.sleep(1)
        assert user.used() == {"pods": "0"}
    assert len(recording.writes) == 2


def _of_class(name: str) -> JSON:
    requirement = {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
    return {"scopeSelector": {"matchExpressions": [requirement]}}


async def test_the_allocated_size_of_a_claim_is_charged_with_its_status(
    user: User,
) -> None:
    user.add_quota({"requests.storage": "10Gi"})
    async with counting(user.cluster):
        await asyncio.sleep(1)
        resources = {"requests": {"storage": "4Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
        user.cluster.add("PersistentVolumeClaim", "c", spec=spec)
        claims = "persistentvolumeclaims"
        await user.patch(claims, "c", {"status": {"phase": "Bound"}}, "status")
        assert user.used() == {"requests.storage": "4Gi"}
        allocated = {"status": {"allocatedResources": {"storage": "6Gi"}}}
        await user.patch(claims, "c", allocated, "status")
        assert user.used() == {"requests.storage": "6Gi"}
        larger = {"status": {"allocatedResources": {"storage": "11Gi"}}}
        with pytest.raises(Forbidden, match=r"requests\.storage=5Gi, used: "):
            await user.patch(claims, "c", larger, "status")
        await asyncio.sleep(2)
        assert user.used() == {"requests.storage": "6Gi"}


async def test_nothing_is_admitted_before_the_usage_is_known(user: User) -> None:
    user.add_quota({"pods": "2"})
    user.add_pod("a")
    status = {"hard": {"pods": "2"}, "used": {}}
    await user.patch("resourcequotas", "q", {"status": status}, "status")
    with pytest.raises(Refusal) as refused:
        user.add_pod("b")
    assert refused.value.message == (
        'pods "b" is forbidden: status unknown for quota: q, resources: pods'
    )
    async with counting(user.cluster):
        await asyncio.sleep(1)
        user.add_pod("b")
    assert user.used() == {"pods": "2"}


async def test_a_dry_run_is_checked_and_not_charged(user: User) -> None:
    user.add_quota({"pods": "1"})
    async with counting(user.cluster):
        await asyncio.sleep(1)
        kind = user.cluster.server.catalogue.of("v1", "Pod")
        assert kind is not None
        pod = {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "app:v1"}]},
        }
        objects = user.cluster.server.objects
        objects.create(kind, "default", pod, dry_run=True)
        assert user.used() == {"pods": "0"}
        objects.create(kind, "default", pod)
        with pytest.raises(Refusal, match="exceeded quota"):
            objects.create(
                kind, "default", {**pod, "metadata": {"name": "q"}}, dry_run=True
            )


async def test_no_quota_is_charged_if_one_of_them_refuses(user: User) -> None:
    user.add_quota({"pods": "5"}, "a")
    user.add_quota({"pods": "0"}, "b")
    async with counting(user.cluster):
        await asyncio.sleep(1)
        with pytest.raises(Refusal, match="exceeded quota: b"):
            user.add_pod("p")
        assert user.used("a") == user.used("b") == {"pods": "0"}


async def test_what_ends_or_changes_its_type_is_not_charged_any_more(
    user: User,
) -> None:
    user.add_quota({"pods": "5", "count/pods": "5", "services.nodeports": "5"})
    user.add_pod("a")
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    user.cluster.add("Service", "s", spec={"type": "NodePort", "ports": ports})
    async with counting(user.cluster):
        await asyncio.sleep(1)
        expected = {"count/pods": "1", "pods": "1", "services.nodeports": "2"}
        assert user.used() == expected
        await user.patch("pods", "a", {"status": {"phase": "Failed"}}, "status")
        await asyncio.sleep(0.2)
        assert user.used() == {**expected, "pods": "0"}
        # Upstream waits for the next recount of everything here.
        await user.patch("services", "s", {"spec": {"ports": ports[:1]}})
        await asyncio.sleep(0.2)
        assert user.used()["services.nodeports"] == "1"
        await user.patch("services", "s", {"spec": {"type": "ClusterIP"}})
        await asyncio.sleep(0.2)
        assert user.used() == {**expected, "pods": "0", "services.nodeports": "0"}


async def test_a_pod_may_not_change_into_a_quota_that_is_used_up(user: User) -> None:
    user.add_quota({"pods": "5"}, "long", scopes=["NotTerminating"])
    user.add_quota({"pods": "1"}, "short", scopes=["Terminating"])
    async with counting(user.cluster):
        await asyncio.sleep(1)
        for name in ("a", "b"):
            user.add_pod(name)
        await user.patch("pods", "a", {"spec": {"activeDeadlineSeconds": 60}})
        await asyncio.sleep(1)
        assert (user.used("long"), user.used("short")) == ({"pods": "1"}, {"pods": "1"})
        with pytest.raises(Forbidden, match="exceeded quota: short, requested: pods=1"):
            await user.patch("pods", "b", {"spec": {"activeDeadlineSeconds": 60}})


async def test_a_status_that_somebody_edits_stays_until_all_is_counted(
    user: User,
) -> None:
    """Each admission edits it, so an edit by itself calls for no recount."""
    user.add_quota({"pods": "5"})
    async with counting(user.cluster):
        await asyncio.sleep(10)
        wrong = {"status": {"used": {"pods": "3"}}}
        await user.patch("resourcequotas", "q", wrong, "status")
        await asyncio.sleep(280)
        assert user.used() == {"pods": "3"}
        await asyncio.sleep(15)
        assert user.used() == {"pods": "0"}


async def test_a_pod_that_should_be_gone_stays_charged_until_all_is_counted(
    user: User,
) -> None:
    user.add_quota({"pods": "5"})
    user.add_pod("a", nodeName="n", terminationGracePeriodSeconds=30)
    async with counting(user.cluster):
        await asyncio.sleep(1)
        await user.delete("pods", "a")
        await asyncio.sleep(200)
        assert user.used() == {"pods": "1"}
        await asyncio.sleep(110)
        assert user.used() == {"pods": "0"}


async def test_the_period_of_recounts_is_a_flag(user: User) -> None:
    user.add_quota({"pods": "5"})
    settings = config(ResourceQuotaOptions(sync_period=10.0))
    async with counting(user.cluster, settings=settings):
        await asyncio.sleep(1)
        wrong = {"status": {"used": {"pods": "3"}}}
        await user.patch("resourcequotas", "q", wrong, "status")
        await asyncio.sleep(10)
        assert user.used() == {"pods": "0"}


async def test_what_cannot_be_counted_has_no_usage(user: User) -> None:
    user.add_quota(
        {"count/widgets.example.com": "3", "requests.example.com/gadget": "2"}
    )
    async with counting(user.cluster) as recording:
        await asyncio.sleep(700)
    assert user.used() == {"requests.example.com/gadget": "0"}
    assert len(recording.writes) == 1


async def test_a_quota_without_limits_is_left_alone(user: User) -> None:
    """Upstream writes an empty status in each recount."""
    user.cluster.add("ResourceQuota", "q")
    async with counting(user.cluster) as recording:
        await asyncio.sleep(700)
    assert recording.writes == []


async def test_a_deleted_quota_leaves_nothing_behind(user: User) -> None:
    user.add_quota({"pods": "5"})
    async with controller_of(user.cluster) as controller:
        await asyncio.sleep(1)
        assert list(controller._written) == ["default/q"]
        await user.delete("resourcequotas", "q")
        await asyncio.sleep(1)
        assert (controller._written, controller._stale) == ({}, set())
        assert len(controller._consistency) == 0
        user.add_quota({"secrets": "5"})
        await asyncio.sleep(1)
        assert user.used() == {"secrets": "0"}


@dataclass
class Racing(Watching):
    """Somebody changes a quota just before its status is written, a few times."""

    changes: int = 0

    async def request(self, request: Request) -> Response:
        if request.method == "PUT" and self.changes:
            self.changes -= 1
            label = {"metadata": {"labels": {"change": str(self.changes)}}}
            body = msgspec.json.encode(label)
            path = request.path.removesuffix("/status")
            headers = {"content-type": "application/merge-patch+json"}
            await self.inner.request(Request("PATCH", path, body=body, headers=headers))
        return await self.inner.request(request)


async def test_a_conflict_waits_for_the_cache(user: User) -> None:
    user.add_quota({"pods": "5"})
    transport = Racing(user.cluster.transport, changes=2)
    async with counting(user.cluster, transport) as recording:
        await asyncio.sleep(2)
    assert [each.status for each in recording.writes] == [409, 409, 200]
    assert user.used() == {"pods": "0"}


async def test_a_charge_that_a_recount_took_back_is_charged_again(user: User) -> None:
    """The recount did not see the pod; upstream's next one is minutes later."""
    user.cluster.add("Secret", "s")
    user.add_quota({"pods": "5", "secrets": "5"})
    watches = SilentWatches(user.cluster.transport)
    async with counting(user.cluster, watches):
        await asyncio.sleep(1)
        watches.silence("pods")
        user.add_pod("a")
        assert user.used() == {"pods": "1", "secrets": "1"}
        await user.delete("secrets", "s")
        await asyncio.sleep(1)
        assert user.used() == {"pods": "0", "secrets": "0"}
        watches.speak("pods")
        await asyncio.sleep(2)
        assert user.used() == {"pods": "1", "secrets": "0"}


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
            {"services": "1", "services.nodeports": "1", "services.loadbalancers": "1"},
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


async def test_a_quota_refuses_affinity_to_pods_of_other_namespaces(user: User) -> None:
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
