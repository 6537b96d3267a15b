"""The small controllers: pods, jobs, accounts, authorities and nodes."""

import asyncio
import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    Node,
    Pod,
)
from controller_manager.client.builder import Connections
from controller_manager.client.client import PatchType
from controller_manager.client.inmemory import StreamingResponse
from controller_manager.client.transport import Request, Response
from controller_manager.controllers.batch.ttlafterfinished.reconciler import expires_at
from controller_manager.controllers.nodes.podgc.selection import (
    is_of_interest,
    terminated_beyond,
    terminating_out_of_service,
    unknown_nodes,
    unscheduled_terminating,
)
from controller_manager.controllers.nodes.ttl.reconciler import STEPS, step_for
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import Config, PodGCConfig
from controller_manager.runtime.outcome import SyncError
from tests.clusters import Cluster, make_config, run_manager
from tests.controllers.builders import JSON

pytestmark = pytest.mark.looptime

SINCE = "2026-01-01T00:00:00Z"


def pod(name: str = "p", **parts: Any) -> Pod:
    """Return a pod; `parts` are of its metadata, spec and status."""
    metadata = {"name": name, "namespace": "default", **parts.get("metadata", {})}
    body = {"metadata": metadata, **{k: parts.get(k, {}) for k in ("spec", "status")}}
    return msgspec.convert(body, Pod)


def ended(name: str, created: str, reason: str = "", phase: str = "Failed") -> Pod:
    return pod(
        name,
        metadata={"creationTimestamp": created},
        status={"phase": phase, "reason": reason},
    )


def node(name: str, *, ready: bool, taint: str = "") -> Node:
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    spec = {"taints": [{"key": taint}]} if taint else {}
    body = {"metadata": {"name": name}, "spec": spec, "status": status}
    return msgspec.convert(body, Node)


# Which pods are collected


def test_evicted_pods_go_first_then_the_oldest() -> None:
    """Of those that have ended; as many as there are above the threshold."""
    pods = [
        ended("old", "2026-01-01T00:00:00Z", phase="Succeeded"),
        ended("older", "2025-01-01T00:00:00Z"),
        ended("evicted", "2026-02-01T00:00:00Z", "Evicted"),
        ended("young", "2026-03-01T00:00:00Z"),
        pod("running", status={"phase": "Running"}),
    ]
    names = {
        threshold: [each.metadata.name for each in terminated_beyond(pods, threshold)]
        for threshold in (0, 1, 3, 4, 100)
    }
    assert names == {
        0: [],
        1: ["evicted", "older", "old"],
        3: ["evicted"],
        4: [],
        100: [],
    }


def test_only_pods_of_nodes_that_are_out_of_service_are_ended_by_force() -> None:
    """Not ready, and tainted; one of both is not enough."""
    taint = "node.kubernetes.io/out-of-service"
    nodes = {
        "gone": node("gone", ready=False, taint=taint),
        "back": node("back", ready=True, taint=taint),
        "weak": node("weak", ready=False),
    }
    pods = [
        pod(name, metadata={"deletionTimestamp": SINCE}, spec={"nodeName": name})
        for name in (*nodes, "unknown")
    ] + [pod("alive", spec={"nodeName": "gone"})]
    found = [each.metadata.name for each in terminating_out_of_service(pods, nodes)]
    assert found == ["gone"]


def test_a_terminating_pod_that_no_node_has_is_ended_by_force() -> None:
    """And one that a node has is left to it."""
    pods = [
        pod("lost", metadata={"deletionTimestamp": SINCE}),
        pod("held", metadata={"deletionTimestamp": SINCE}, spec={"nodeName": "n"}),
        pod("pending"),
    ]
    assert [each.metadata.name for each in unscheduled_terminating(pods)] == ["lost"]
    assert unknown_nodes(pods, {}) == {"n"}
    assert unknown_nodes(pods, {"n": node("n", ready=True)}) == set()


def test_every_pod_that_may_be_chosen_is_of_interest() -> None:
    """And those that run where they should are not."""
    nodes = {"n": node("n", ready=True)}
    pods = {
        "running": pod(spec={"nodeName": "n"}, status={"phase": "Running"}),
        "pending": pod(status={"phase": "Pending"}),
        "ended": pod(spec={"nodeName": "n"}, status={"phase": "Succeeded"}),
        "going": pod(
            metadata={"deletionTimestamp": SINCE},
            spec={"nodeName": "n"},
            status={"phase": "Running"},
        ),
        "lost": pod(spec={"nodeName": "x"}, status={"phase": "Running"}),
    }
    found = [name for name, each in pods.items() if is_of_interest(each, nodes)]
    assert found == ["ended", "going", "lost"]


# On a cluster


def config(controller: str, **more: Any) -> Config:
    return replace(make_config(controllers=(controller,)), **more)


def add(cluster: Cluster, kind: str, name: str, api: str = "v1", **parts: Any) -> None:
    found = cluster.server.catalogue.of(api, kind)
    assert found is not None
    namespace = "default" if found.namespaced else ""
    obj = {"metadata": {"name": name}, **parts}
    status = obj.pop("status", None)
    stored = cluster.server.objects.create(found, namespace, obj)
    if status is not None:
        body = {**stored.obj, "status": {**stored.obj.get("status", {}), **status}}
        cluster.server.objects.update(found, namespace, name, body, "status")


CONTAINERS = {"containers": [{"name": "c", "image": "app:v1"}]}


async def names(cluster: Cluster) -> list[str]:
    return [each.metadata.name for each in (await cluster.client.list_page(PODS)).items]


async def test_pods_stay_when_it_is_the_path_of_nodes_that_is_not_found(
    cluster: Cluster,
) -> None:
    """A proxy's 404, or one of an API server that starts, says nothing of a node."""
    spec = {**CONTAINERS, "nodeName": "unknown"}
    add(cluster, "Pod", "kept", spec=spec, status={"phase": "Running"})
    handle = cluster.server.handle

    async def lost(request: Request) -> Response | StreamingResponse:
        if request.path == "/api/v1/nodes/unknown":
            return Response(404, {}, b"404 page not found")
        return await handle(request)

    cluster.server.handle = lost  # type: ignore[method-assign]
    async with cluster.manager(config("podgc")):
        await asyncio.sleep(300)
        assert await names(cluster) == ["kept"]


async def test_no_empty_authority_is_published_over_a_good_one(
    cluster: Cluster,
) -> None:
    """Where nobody has said what the authority is, the controller does not run."""
    log = io.StringIO()
    settings = make_config(controllers=("root-ca-cert-publisher", "ttl"))
    connections = Connections(cluster.transport, root_ca="PEM")
    async with run_manager(connections, cluster.clock, cluster.rng, settings):
        await asyncio.sleep(1)
    unsaid = Connections(cluster.transport)
    logger = make_logger(stream=log)
    async with run_manager(unsaid, cluster.clock, cluster.rng, settings, logger):
        await asyncio.sleep(600)
        maps = (await cluster.client.list_page(CONFIG_MAPS)).items
    assert {each.data["ca.crt"] for each in maps if each.data} == {"PEM"}
    assert "There is no authority to publish; give --root-ca-file" in log.getvalue()


async def test_pods_of_a_node_that_is_gone_fail_and_are_deleted(
    cluster: Cluster,
) -> None:
    """After forty seconds, in which it may come back; with a condition."""
    spec = {**CONTAINERS, "nodeName": "gone"}
    add(cluster, "Pod", "orphan", spec=spec, status={"phase": "Running"})
    async with cluster.manager(config("podgc")) as recording:
        await asyncio.sleep(39)
        assert await names(cluster) == ["orphan"]
        await asyncio.sleep(25)
        assert await names(cluster) == []
    statuses: list[JSON] = [
        msgspec.json.decode(write.body)["status"]
        for write in recording.writes
        if write.method == "PATCH"
    ]
    assert statuses == [
        {
            "phase": "Failed",
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "lastProbeTime": None,
                    "lastTransitionTime": statuses[0]["conditions"][0][
                        "lastTransitionTime"
                    ],
                    "observedGeneration": 1,
                }
            ],
        }
    ]


async def test_pods_of_a_node_that_comes_in_time_stay(cluster: Cluster) -> None:
    """Also if only the API server knows of it yet."""
    add(cluster, "Pod", "early", spec={**CONTAINERS, "nodeName": "late"})
    async with cluster.manager(config("podgc")) as recording:
        await asyncio.sleep(30)
        add(cluster, "Node", "late")
        await asyncio.sleep(100)
        assert (await names(cluster), recording.writes) == (["early"], [])


async def test_ended_pods_above_the_threshold_are_deleted(cluster: Cluster) -> None:
    """Those below it stay for their owners to look at."""
    for name in ("a", "b", "c"):
        add(cluster, "Pod", name, spec=CONTAINERS, status={"phase": "Succeeded"})
    settings = config("podgc", pod_gc=PodGCConfig(terminated_pod_threshold=2))
    async with cluster.manager(settings):
        await asyncio.sleep(25)
        assert await names(cluster) == ["b", "c"]


def job(**parts: Any) -> Job:
    spec = {"ttlSecondsAfterFinished": parts.get("ttl", 10)}
    conditions = parts.get("conditions", [])
    metadata = {"name": "j", "namespace": "default", **parts.get("metadata", {})}
    body = {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(body, Job)


def condition(kind: str, status: str = "True", since: str | None = SINCE) -> JSON:
    return {"type": kind, "status": status, "lastTransitionTime": since}


@pytest.mark.parametrize(
    ("subject", "when"),
    [
        (
            job(conditions=[condition("Complete")]),
            datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC),
        ),
        (
            job(conditions=[condition("Failed")], ttl=0),
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
        (job(conditions=[condition("Complete", "False")]), None),
        (job(conditions=[condition("Suspended")]), None),
        (job(conditions=[condition("Complete")], ttl=None), None),
        (
            job(
                conditions=[condition("Complete")],
                metadata={"deletionTimestamp": SINCE},
            ),
            None,
        ),
    ],
)
def test_a_job_expires_some_time_after_its_end(
    subject: Job, when: datetime | None
) -> None:
    """If it has an end, and somebody said how long it is to be kept."""
    assert expires_at(subject) == when


def test_a_job_that_does_not_say_when_it_ended_cannot_expire() -> None:
    """That is said in so many words."""
    subject = job(conditions=[condition("Complete", since=None)])
    with pytest.raises(SyncError, match="find the time when the Job default/j"):
        expires_at(subject)


async def test_a_job_that_is_given_more_time_is_kept(cluster: Cluster) -> None:
    """The last word on its TTL counts, even if the cache has not heard it."""
    template = {"spec": {**CONTAINERS, "restartPolicy": "Never"}}
    spec = {"ttlSecondsAfterFinished": 10, "template": template}
    status = {"conditions": [condition("Complete")]}
    add(cluster, "Job", "j", "batch/v1", spec=spec, status=status)
    async with cluster.manager(config("ttl-after-finished")):
        await asyncio.sleep(5)
        patch = {"spec": {"ttlSecondsAfterFinished": 100}}
        await cluster.client.patch(JOBS, "default", "j", patch, PatchType.MERGE)
        await asyncio.sleep(50)
        assert (await cluster.client.get(JOBS, "default", "j")).metadata.name == "j"
        await asyncio.sleep(60)
        metadata = (await cluster.client.get(JOBS, "default", "j")).metadata
        assert metadata.deletion_timestamp is not None
        assert metadata.finalizers == ("foregroundDeletion",)


async def test_every_active_namespace_has_an_account_and_the_authority(
    cluster: Cluster,
) -> None:
    """One that is ending gets neither, and no attempt is made."""
    cluster.add_namespace("ending")
    await cluster.client.delete(NAMESPACES, "", "ending")
    selection = ("serviceaccount", "root-ca-cert-publisher")
    settings = make_config(controllers=selection)
    connections = Connections(cluster.transport, root_ca="PEM")
    async with run_manager(connections, cluster.clock, cluster.rng, settings):
        await asyncio.sleep(1)
        cluster.add_namespace("late")
        await asyncio.sleep(1)
        accounts = (await cluster.client.list_page(SERVICE_ACCOUNTS)).items
        maps = (await cluster.client.list_page(CONFIG_MAPS)).items
    namespaces = ["default", "kube-system", "late"]
    assert [each.metadata.namespace for each in accounts] == namespaces
    assert [(each.metadata.namespace, each.data) for each in maps] == [
        (namespace, {"ca.crt": "PEM"}) for namespace in namespaces
    ]


async def test_the_published_authority_is_repaired_and_nothing_else_is_lost(
    cluster: Cluster,
) -> None:
    """Labels and annotations of others stay; the description comes back."""
    settings = config("root-ca-cert-publisher")
    connections = Connections(cluster.transport, root_ca="PEM")
    name = "kube-root-ca.crt"
    async with run_manager(connections, cluster.clock, cluster.rng, settings):
        await asyncio.sleep(1)
        described = await cluster.client.get(CONFIG_MAPS, "default", name)
        patch = {
            "metadata": {
                "labels": {"mine": "1"},
                "annotations": {"kubernetes.io/description": None, "mine": "2"},
            },
            "data": {"ca.crt": "FORGED", "more": "x"},
        }
        await cluster.client.patch(CONFIG_MAPS, "default", name, patch, PatchType.MERGE)
        await asyncio.sleep(1)
        repaired = await cluster.client.get(CONFIG_MAPS, "default", name)
        await cluster.client.delete(CONFIG_MAPS, "default", name)
        await asyncio.sleep(1)
        again = await cluster.client.get(CONFIG_MAPS, "default", name)
    assert repaired.data == again.data == {"ca.crt": "PEM"}
    assert repaired.metadata.labels == {"mine": "1"}
    assert repaired.metadata.annotations == {
        **(described.metadata.annotations or {}),
        "mine": "2",
    }


async def test_only_what_matters_is_watched(cluster: Cluster) -> None:
    """Not all config maps and accounts there are."""
    for number in range(50):
        add(cluster, "ConfigMap", f"other-{number}", data={"k": "v" * 1000})
    selection = ("serviceaccount", "root-ca-cert-publisher")
    settings = make_config(controllers=selection)
    connections = Connections(cluster.transport, root_ca="PEM")
    async with run_manager(
        connections, cluster.clock, cluster.rng, settings
    ) as manager:
        await asyncio.sleep(1)
        cached = {
            each.resource.plural: len(each.store) for each in manager.informers.all()
        }
    assert cached == {"namespaces": 2, "serviceaccounts": 2, "configmaps": 2}


@pytest.mark.parametrize(
    ("nodes", "before", "after"),
    [
        (0, 0, 0),
        (100, 0, 0),
        (101, 0, 1),
        (95, 1, 1),
        (89, 1, 0),
        (5_000, 0, 4),
        (1_799, 4, 3),
        (1, 4, 0),
    ],
)
def test_the_step_by_size_has_some_play(nodes: int, before: int, after: int) -> None:
    """Upstream's bounds: it goes up above one, down below another."""
    assert step_for(nodes, before) == after


def test_the_seconds_are_upstreams() -> None:
    """From nothing to five minutes."""
    assert [each.seconds for each in STEPS] == [0, 15, 30, 60, 300]


async def test_all_nodes_are_told_when_the_cluster_has_grown(cluster: Cluster) -> None:
    """At once, also those that do not change by themselves."""
    for number in range(100):
        add(cluster, "Node", f"n{number:03}")
    async with cluster.manager(config("ttl")):
        await asyncio.sleep(1)
        assert await _told(cluster) == {"0": 100}
        add(cluster, "Node", "n100")
        await asyncio.sleep(1)
        assert await _told(cluster) == {"15": 101}
        await cluster.client.delete(NODES, "", "n100")
        await asyncio.sleep(1)
        assert await _told(cluster) == {"15": 100}


async def _told(cluster: Cluster) -> dict[str | None, int]:
    told: dict[str | None, int] = {}
    for each in (await cluster.client.list_page(NODES)).items:
        annotations = each.metadata.annotations
        value = annotations.ttl if annotations is not None else None
        told[value] = told.get(value, 0) + 1
    return told


async def test_a_node_that_was_annotated_otherwise_is_corrected(
    cluster: Cluster,
) -> None:
    """One that is right is left alone."""
    note = {"node.alpha.kubernetes.io/ttl": "7"}
    right = {"node.alpha.kubernetes.io/ttl": "0"}
    add(cluster, "Node", "wrong")
    add(cluster, "Node", "right")
    for name, annotations in (("wrong", note), ("right", right)):
        patch = {"metadata": {"annotations": annotations}}
        await cluster.client.patch(NODES, "", name, patch, PatchType.MERGE)
    async with cluster.manager(config("ttl")) as recording:
        await asyncio.sleep(1)
        assert await _told(cluster) == {"0": 2}
        assert [each.path for each in recording.writes] == ["/api/v1/nodes/wrong"]
