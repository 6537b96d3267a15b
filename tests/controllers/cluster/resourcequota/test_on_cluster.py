"""Quotas are counted on a cluster in memory, on virtual time."""

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.resources import RESOURCE_QUOTAS
from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import CONFIG_MAPS, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.gates import FeatureGates
from tests.controllers.hands import Before
from tests.runtime.silence import SilentWatches

from .counting import CONTAINER, Quotas, config, controller_of, counting

pytestmark = pytest.mark.looptime


async def test_a_new_quota_shows_its_limits_and_its_usage(cluster: Quotas) -> None:
    cluster.add_pod("a")
    cluster.add_pod("b", cpu="0.5")
    kept = {"labels": {"team": "a"}, "finalizers": ["example.com/keep"]}
    hard = {"pods": "5", "cpu": "1"}
    cluster.put(RESOURCE_QUOTAS, "q", metadata=kept, spec={"hard": hard})
    async with counting(cluster) as recording:
        await asyncio.sleep(3000)
    assert [(each.method, each.path, each.status) for each in recording.writes] == [
        ("PUT", "/api/v1/namespaces/default/resourcequotas/q/status", 200)
    ]
    used = {"cpu": "600m", "pods": "2"}
    assert cluster.status() == {"hard": hard, "used": used}
    metadata = cluster.stored(RESOURCE_QUOTAS, "q")["metadata"]
    assert {name: metadata[name] for name in kept} == kept


async def test_the_api_server_charges_and_the_controller_frees(cluster: Quotas) -> None:
    cluster.add_quota({"pods": "2", "requests.cpu": "250m"})
    async with counting(cluster) as recording:
        await asyncio.sleep(1)
        cluster.add_pod("a")
        cluster.add_pod("b")
        assert cluster.used() == {"pods": "2", "requests.cpu": "200m"}
        with pytest.raises(Refusal) as refused:
            cluster.add_pod("c")
        assert refused.value.message == (
            'pods "c" is forbidden: exceeded quota: q, requested: '
            "pods=1,requests.cpu=100m, used: pods=2,requests.cpu=200m, limited: "
            "pods=2,requests.cpu=250m"
        )
        await asyncio.sleep(40)
        assert len(recording.writes) == 1  # the status was true already
        cluster.remove(PODS, "a")
        await asyncio.sleep(0.2)
        assert cluster.used() == {"pods": "1", "requests.cpu": "100m"}
        cluster.add_pod("c")


async def test_a_pod_that_does_not_specify_limited_resources_is_refused(
    cluster: Quotas,
) -> None:
    cluster.add_quota({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "9"})
    async with counting(cluster):
        await asyncio.sleep(1)
        with pytest.raises(Refusal) as refused:
            cluster.put(PODS, "p", spec={"containers": [CONTAINER]})
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
    cluster = Quotas(features=features)
    cluster.add_quota({"requests.cpu": "9"})
    settings = replace(config(), features=features)
    async with counting(cluster, settings=settings) as recording:
        await asyncio.sleep(1)
        whole = {"requests": {"cpu": "2"}}
        cluster.add_pod("a", overhead={"cpu": "250m"}, resources=whole)
        assert cluster.used() == {"requests.cpu": charged}
        in_use = {"requests": {"cpu": "2250m"}}
        status = {"resources": in_use, "allocatedResources": in_use["requests"]}
        cluster.edit(PODS, "a", status=status)
        cluster.add_pod("b")
        await asyncio.sleep(1)
        cluster.add_pod("c")
        for name in ("b", "c"):
            cluster.remove(PODS, name)
            await asyncio.sleep(1)
        assert cluster.used() == {"requests.cpu": charged}
    assert len(recording.writes) == 3


def of_class(name: str) -> JSON:
    requirement = {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
    return {"scopeSelector": {"matchExpressions": [requirement]}}


async def test_another_scope_selector_calls_for_a_recount(cluster: Quotas) -> None:
    """Upstream notices it at the next recount of all quotas."""
    cluster.put("scheduling.k8s.io/v1/priorityclasses", "high", value=1)
    cluster.add_pod("a", priorityClassName="high")
    cluster.add_pod("b")
    cluster.add_quota({"pods": "5"}, **of_class("high"))
    async with counting(cluster) as recording:
        await asyncio.sleep(1)
        assert cluster.used() == {"pods": "1"}
        cluster.edit(RESOURCE_QUOTAS, "q", spec=of_class("low"))
        await asyncio.sleep(1)
        assert cluster.used() == {"pods": "0"}
    assert len(recording.writes) == 2


CLAIM: Final[JSON] = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "gold",
}


async def test_the_allocated_size_of_a_claim_is_charged_with_its_status(
    cluster: Quotas,
) -> None:
    cluster.add_quota({"requests.storage": "10Gi"})

    def allocate(size: str) -> None:
        cluster.edit(CLAIMS, "c", status={"allocatedResources": {"storage": size}})

    async with counting(cluster):
        await asyncio.sleep(1)
        cluster.put(CLAIMS, "c", spec=CLAIM, status={"phase": "Bound"})
        assert cluster.used() == {"requests.storage": "1Gi"}
        allocate("6Gi")
        assert cluster.used() == {"requests.storage": "6Gi"}
        with pytest.raises(Refusal, match=r"requests\.storage=5Gi, used: "):
            allocate("11Gi")
        await asyncio.sleep(2)
        assert cluster.used() == {"requests.storage": "6Gi"}


async def test_nothing_is_admitted_before_the_usage_is_known(cluster: Quotas) -> None:
    cluster.add_quota({"pods": "2"})
    cluster.add_pod("a")
    cluster.edit(RESOURCE_QUOTAS, "q", status={"hard": {"pods": "2"}, "used": {}})
    with pytest.raises(Refusal) as refused:
        cluster.add_pod("b")
    assert refused.value.message == (
        'pods "b" is forbidden: status unknown for quota: q, resources: pods'
    )
    async with counting(cluster):
        await asyncio.sleep(1)
        cluster.add_pod("b")
    assert cluster.used() == {"pods": "2"}


async def test_a_dry_run_is_checked_and_not_charged(cluster: Quotas) -> None:
    cluster.add_quota({"pods": "1"})
    kind, namespace = cluster._kind(PODS, "")

    def try_out(name: str) -> None:
        pod = {"metadata": {"name": name}, "spec": {"containers": [CONTAINER]}}
        cluster.server.objects.create(kind, namespace, pod, dry_run=True)

    async with counting(cluster):
        await asyncio.sleep(1)
        try_out("p")
        assert cluster.used() == {"pods": "0"}
        cluster.add_pod("p")
        with pytest.raises(Refusal, match="exceeded quota"):
            try_out("q")


async def test_no_quota_is_charged_if_one_of_them_refuses(cluster: Quotas) -> None:
    cluster.add_quota({"pods": "5"}, "a")
    cluster.add_quota({"pods": "0"}, "b")
    async with counting(cluster):
        await asyncio.sleep(1)
        with pytest.raises(Refusal, match="exceeded quota: b"):
            cluster.add_pod("p")
        assert cluster.used("a") == cluster.used("b") == {"pods": "0"}


async def test_what_ends_or_changes_its_type_is_not_charged_any_more(
    cluster: Quotas,
) -> None:
    """Of services, upstream waits for the next recount of everything."""
    cluster.add_quota({"pods": "5", "count/pods": "5", "services.nodeports": "5"})
    cluster.add_pod("a")
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    cluster.put(SERVICES, "s", spec={"type": "NodePort", "ports": ports})
    async with counting(cluster):
        await asyncio.sleep(1)
        expected = {"count/pods": "1", "pods": "1", "services.nodeports": "2"}
        assert cluster.used() == expected
        cluster.edit(PODS, "a", status={"phase": "Failed"})
        await asyncio.sleep(0.2)
        assert cluster.used() == {**expected, "pods": "0"}
        for spec, nodeports in (
            ({"ports": ports[:1]}, "1"),
            ({"type": "ClusterIP"}, "0"),
        ):
            cluster.edit(SERVICES, "s", spec=spec)
            await asyncio.sleep(0.2)
            assert cluster.used()["services.nodeports"] == nodeports


async def test_a_pod_may_not_change_into_a_quota_that_is_used_up(
    cluster: Quotas,
) -> None:
    cluster.add_quota({"pods": "5"}, "long", scopes=["NotTerminating"])
    cluster.add_quota({"pods": "1"}, "short", scopes=["Terminating"])
    soon = {"activeDeadlineSeconds": 60}
    async with counting(cluster):
        await asyncio.sleep(1)
        for name in ("a", "b"):
            cluster.add_pod(name)
        cluster.edit(PODS, "a", spec=soon)
        await asyncio.sleep(1)
        assert cluster.used("long") == cluster.used("short") == {"pods": "1"}
        with pytest.raises(Refusal, match="exceeded quota: short, requested: pods=1"):
            cluster.edit(PODS, "b", spec=soon)


@pytest.mark.parametrize(
    ("period", "wrong_until", "right_at"),
    [(300.0, 290, 305), (10.0, 9, 21), (0.0, 3000, None)],
)
async def test_a_status_that_somebody_edits_stays_until_all_is_counted(
    cluster: Quotas, period: float, wrong_until: int, right_at: int | None
) -> None:
    """Each admission edits it, so an edit by itself calls for no recount.

    As upstream's, a period of 0 disables the recounts, and costs nothing.
    """
    cluster.add_quota({"pods": "5"})
    async with counting(cluster, settings=config(sync_period=period)) as recording:
        await asyncio.sleep(1)
        cluster.claim_used(pods="3")
        await asyncio.sleep(wrong_until - 1)
        assert cluster.used() == {"pods": "3"}
        assert len(recording.writes) == 1
        if right_at is not None:
            await asyncio.sleep(right_at - wrong_until)
            assert cluster.used() == {"pods": "0"}


async def test_a_pod_that_should_be_gone_stays_charged_until_all_is_counted(
    cluster: Quotas,
) -> None:
    cluster.add_quota({"pods": "5"})
    cluster.add_pod("a", nodeName="n", terminationGracePeriodSeconds=30)
    async with counting(cluster):
        await asyncio.sleep(1)
        cluster.remove(PODS, "a", grace=30)
        await asyncio.sleep(200)
        assert cluster.used() == {"pods": "1"}
        await asyncio.sleep(110)
        assert cluster.used() == {"pods": "0"}


async def test_what_cannot_be_counted_has_no_usage(cluster: Quotas) -> None:
    gadget = "requests.example.com/gadget"
    cluster.add_quota({"count/widgets.example.com": "3", gadget: "2"})
    async with counting(cluster) as recording:
        await asyncio.sleep(700)
    assert cluster.used() == {gadget: "0"}
    assert len(recording.writes) == 1


async def test_a_quota_without_limits_is_left_alone(cluster: Quotas) -> None:
    """Upstream writes an empty status in each recount."""
    cluster.put(RESOURCE_QUOTAS, "q")
    async with counting(cluster) as recording:
        await asyncio.sleep(700)
    assert recording.writes == []


async def test_a_deleted_quota_leaves_nothing_behind(cluster: Quotas) -> None:
    cluster.add_quota({"pods": "5"})
    async with controller_of(cluster) as controller:
        await asyncio.sleep(1)
        assert list(controller._written) == ["default/q"]
        cluster.remove(RESOURCE_QUOTAS, "q")
        await asyncio.sleep(1)
        assert (controller._written, controller._stale) == ({}, set())
        assert len(controller._consistency) == 0
        cluster.add_quota({"secrets": "5"})
        await asyncio.sleep(1)
        assert cluster.used() == {"secrets": "0"}


async def test_a_conflict_waits_for_the_cache(cluster: Quotas) -> None:
    """Somebody changes the quota just before its status is written."""
    cluster.add_quota({"pods": "5"})

    def change() -> None:
        labels = {"change": str(racing.seen)}
        cluster.edit(RESOURCE_QUOTAS, "q", metadata={"labels": labels})

    racing = Before(cluster, "PUT", "/status", change, times=2)
    async with counting(cluster, racing) as recording:
        await asyncio.sleep(2)
    assert [each.status for each in recording.writes] == [409, 409, 200]
    assert cluster.used() == {"pods": "0"}


async def test_a_charge_that_a_recount_took_back_is_charged_again(
    cluster: Quotas,
) -> None:
    """The recount did not see the pod; upstream's next one is minutes later."""
    cluster.put(SECRETS, "s")
    cluster.add_quota({"pods": "5", "secrets": "5"})
    watches = SilentWatches(cluster.transport)
    async with counting(cluster, watches):
        await asyncio.sleep(1)
        watches.silence("pods")
        cluster.add_pod("a")
        assert cluster.used() == {"pods": "1", "secrets": "1"}
        cluster.remove(SECRETS, "s")
        await asyncio.sleep(1)
        assert cluster.used() == {"pods": "0", "secrets": "0"}
        watches.speak("pods")
        await asyncio.sleep(2)
        assert cluster.used() == {"pods": "1", "secrets": "0"}


OF_GOLD: Final = "gold.storageclass.storage.k8s.io"
HARD: Final = {
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
    f"{OF_GOLD}/persistentvolumeclaims": "10",
    f"{OF_GOLD}/requests.storage": "10Gi",
    "requests.example.com/dongle": "3",
    "count/replicasets.apps": "5",
}
"""The quota of upstream's e2e tests (newTestResourceQuota)."""

DONGLES: Final = {"example.com/dongle": "2"}
ASKED: Final = {"cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi"}
RESOURCES: Final = {"requests": {**ASKED, **DONGLES}, "limits": DONGLES}
TEMPLATE: Final = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [CONTAINER]},
}
SELECTOR: Final = {"matchLabels": {"a": "b"}}
PORTS: Final = [{"port": 80}]
BALANCED: Final = ("services", "services.nodeports", "services.loadbalancers")


@pytest.mark.parametrize(
    ("resource", "spec", "charged"),
    [
        (
            SERVICES,
            {"type": "NodePort", "ports": PORTS},
            {"services": "1", "services.nodeports": "1"},
        ),
        (
            SERVICES,
            {"type": "LoadBalancer", "ports": PORTS},
            dict.fromkeys(BALANCED, "1"),
        ),
        (SECRETS, None, {"secrets": "1"}),
        (CONFIG_MAPS, None, {"configmaps": "1"}),
        (
            PODS,
            {"containers": [{**CONTAINER, "resources": RESOURCES}]},
            {"pods": "1", **ASKED, "requests.example.com/dongle": "2"},
        ),
        (
            REPLICASETS,
            {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE},
            {"count/replicasets.apps": "1"},
        ),
        (
            CLAIMS,
            CLAIM,
            {
                "persistentvolumeclaims": "1",
                "requests.storage": "1Gi",
                f"{OF_GOLD}/persistentvolumeclaims": "1",
                f"{OF_GOLD}/requests.storage": "1Gi",
            },
        ),
    ],
)
async def test_a_quota_captures_the_life_of_an_object(
    cluster: Quotas, resource: AnyResource, spec: JSON | None, charged: JSON
) -> None:
    cluster.add_quota(HARD)
    nothing = {**dict.fromkeys(HARD, "0"), "resourcequotas": "1"}
    async with counting(cluster):
        await asyncio.sleep(1)
        assert cluster.used() == nothing
        parts: JSON = {} if spec is None else {"spec": spec}
        cluster.put(resource, "one", **parts)
        await asyncio.sleep(1)
        assert cluster.used() == {**nothing, **charged}
        cluster.drop(resource, "one")
        await asyncio.sleep(1)
        assert cluster.used() == nothing


async def test_a_quota_refuses_affinity_to_pods_of_other_namespaces(
    cluster: Quotas,
) -> None:
    cluster.add_quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    async with counting(cluster):
        await asyncio.sleep(1)
        cluster.add_pod("plain")
        chosen: tuple[JSON, ...] = ({"namespaces": ["a"]}, {"namespaceSelector": {}})
        for fields in chosen:
            term = {"labelSelector": {}, "topologyKey": "zone", **fields}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            for kind in ("podAffinity", "podAntiAffinity"):
                with pytest.raises(Refusal, match="exceeded quota: q"):
                    cluster.add_pod("p", affinity={kind: required})
