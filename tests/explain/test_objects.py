"""Troubles that a development cluster does not bring about, with objects as given."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.core.v1 import NAMESPACES, PODS
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.explain.cause import Cause, Item, Reference, State
from controller_manager.explain.explainer import explain_item, explain_target
from controller_manager.explain.target import parse_target
from controller_manager.explain.view import Unread, View
from tests.clusters import Cluster

NOW = "2026-01-01T00:00:00Z"


def view_of(
    cluster: Cluster,
    transport: Any = None,
    request_seconds: float = 5.0,
    seconds: float = 0,
) -> View:
    clock = ServerClock(cluster.clock)
    client = Client(transport or cluster.transport, cluster.clock, server_clock=clock)
    return View(client, clock, request_seconds, seconds=seconds)


async def causes(cluster: Cluster, target: str) -> tuple[Cause, ...]:
    found = await explain_target(view_of(cluster), parse_target((target,)), "default")
    return found.causes


def pod(**status: Any) -> dict[str, Any]:
    """Return a pod on a node that reports, with a status."""
    return {
        "spec": {"nodeName": "node-0", "containers": [{"name": "app", "image": "a"}]},
        "status": {"phase": "Running", **status},
    }


def add_node(cluster: Cluster) -> None:
    ready = {"type": "Ready", "status": "True"}
    cluster.add("Node", "node-0", status={"conditions": [ready]})


@pytest.mark.looptime
async def test_an_object_with_an_unusable_field_is_not_called_healthy(
    cluster: Cluster,
) -> None:
    """The answer says that it does not know, and the exit code is not 0."""
    add_node(cluster)
    broken = pod(containerStatuses=[{"name": "app", "ready": 3}])
    metadata = {"namespace": "default", "name": "web"}
    found = await explain_item(
        view_of(cluster), Item(PODS, {"metadata": metadata, **broken})
    )
    assert [(found.state, each.code) for each in found.causes] == [
        (State.STUCK, "UnusableField")
    ]


@pytest.mark.looptime
async def test_a_readiness_gate_that_is_not_true_is_the_cause(cluster: Cluster) -> None:
    add_node(cluster)
    given = pod(
        containerStatuses=[
            {
                "name": "app",
                "ready": True,
                "image": "a",
                "imageID": "",
                "restartCount": 0,
                "state": {"running": {}},
            }
        ],
        conditions=[
            {"type": "Ready", "status": "False", "lastTransitionTime": NOW},
            {
                "type": "example.com/lb",
                "status": "False",
                "lastTransitionTime": NOW,
                "message": "no target group.",
            },
        ],
    )
    given["spec"]["readinessGates"] = [{"conditionType": "example.com/lb"}]
    cluster.add("Pod", "web", **given)
    assert await causes(cluster, "pod/web") == (
        Cause(
            code="ReadinessGate",
            state=State.STUCK,
            what="the readiness gate example.com/lb is not true: no target group",
            object=Reference("v1", "Pod", "default", "web"),
            field="status.conditions[example.com/lb]",
            since=NOW,
            remedy="see that the controller that sets the condition example.com/lb "
            "runs",
        ),
    )


@pytest.mark.looptime
async def test_a_pod_whose_node_is_gone_waits_for_the_garbage_collector(
    cluster: Cluster,
) -> None:
    cluster.add("Pod", "web", **pod())
    (found,) = await causes(cluster, "pod/web")
    assert (found.code, found.state, found.what) == (
        "NodeGone",
        State.PROGRESSING,
        "the node node-0 of the pod is gone",
    )


@pytest.mark.looptime
async def test_an_evicted_pod_has_the_reason_of_its_kubelet(cluster: Cluster) -> None:
    given = pod(phase="Failed", reason="Evicted", message="The node was low on disk.")
    cluster.add("Pod", "web", **given)
    (found,) = await causes(cluster, "pod/web")
    assert (found.code, found.what) == (
        "PodFailed",
        "the pod failed: Evicted: The node was low on disk",
    )


@pytest.mark.looptime
async def test_a_new_pod_waits_for_the_scheduler_and_an_old_one_lacks_it(
    cluster: Cluster,
) -> None:
    spec = {"containers": [{"name": "app", "image": "a"}], "schedulerName": "mine"}
    cluster.add("Pod", "web", spec=spec)
    (new,) = await causes(cluster, "pod/web")
    await asyncio.sleep(60)  # virtual time
    (old,) = await causes(cluster, "pod/web")
    assert [(each.code, each.state, each.remedy) for each in (new, old)] == [
        ("NotScheduled", State.PROGRESSING, ""),
        ("NotScheduled", State.STUCK, "see that the scheduler mine runs"),
    ]


@pytest.mark.looptime
async def test_an_aggregated_api_that_does_not_answer_keeps_a_namespace(
    cluster: Cluster,
) -> None:
    """The namespace controller cannot list what may be in the namespace."""
    broken = {
        "type": "Available",
        "status": "False",
        "lastTransitionTime": NOW,
        "message": "no endpoints.",
    }
    cluster.add(
        "APIService",
        "v1.example.com",
        "apiregistration.k8s.io/v1",
        spec={
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 1,
            "versionPriority": 1,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "gone"},
        },
        status={"conditions": [broken]},
    )
    failure = {
        "type": "NamespaceDeletionDiscoveryFailure",
        "status": "True",
        "reason": "DiscoveryFailed",
        "lastTransitionTime": NOW,
        "message": "Discovery failed for some groups.",
    }
    cluster.add("Namespace", "old", status={"conditions": [failure]})
    await cluster.client.delete(NAMESPACES, "", "old")
    (found,) = await causes(cluster, "ns/old")
    (api,) = found.because
    assert (found.code, found.remedy, api) == (
        "DiscoveryFailed",
        "",
        Cause(
            code="APIServiceUnavailable",
            state=State.STUCK,
            what="the aggregated API does not answer: no endpoints",
            object=Reference(
                "apiregistration.k8s.io/v1", "APIService", "", "v1.example.com"
            ),
            field="status.conditions[Available]",
            since=NOW,
            remedy="repair the server behind it, or delete the APIService",
        ),
    )


@pytest.mark.looptime
async def test_objects_that_may_not_be_read_are_named() -> None:
    cluster = Cluster(rbac=True)
    cluster.server.tokens.add("reader", User("reader"))
    grant(cluster, "pods")
    cluster.add("Pod", "web", **pod())
    transport = InMemoryTransport(cluster.server, "reader")
    found = await explain_target(
        view_of(cluster, transport), parse_target(("pod/web",)), "default"
    )
    assert [each.partition(":")[0] for each in found.unread] == [
        "nodes 'node-0'",
        "events in default",
    ]
    assert [each.code for each in found.causes] == ["Starting"]


def grant(cluster: Cluster, resource: str) -> None:
    api = "rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [""], "resources": [resource], "verbs": ["get", "list"]}
    cluster.add("ClusterRole", "reader", api, rules=[rule])
    group = "rbac.authorization.k8s.io"
    cluster.add(
        "ClusterRoleBinding",
        "reader",
        api,
        roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        subjects=[{"apiGroup": group, "kind": "User", "name": "reader"}],
    )


class Counting:
    """Passes requests on, and counts them by path; lists may be answered never."""

    def __init__(self, cluster: Cluster, *, hangs: str = "") -> None:
        self._inner = cluster.transport
        self._hangs = hangs
        self.host = self._inner.host
        self.paths: list[str] = []

    async def request(self, request: Request) -> Response:
        self.paths.append(request.path)
        if self._hangs and self._hangs in request.path:
            await asyncio.Event().wait()
        return await self._inner.request(request)


@pytest.mark.looptime
async def test_each_object_is_read_once(cluster: Cluster) -> None:
    """So two causes never contradict each other."""
    add_node(cluster)
    cluster.add("Pod", "web", **pod())
    counting = Counting(cluster)
    await explain_target(
        view_of(cluster, counting), parse_target(("po/web",)), "default"
    )
    assert len(counting.paths) == len(set(counting.paths)) == 3


@pytest.mark.looptime
async def test_a_request_without_an_answer_ends_after_its_timeout(
    cluster: Cluster,
) -> None:
    cluster.add("Pod", "web", **pod())
    view = view_of(cluster, Counting(cluster, hangs="/nodes/"))
    found = await explain_target(view, parse_target(("po/web",)), "default")
    assert found.unread == ("nodes 'node-0': no answer in time",)
    never = view_of(cluster, Counting(cluster, hangs="/pods/"))
    with pytest.raises(Unread, match="no answer in time"):
        await explain_target(never, parse_target(("po/web",)), "default")


@pytest.mark.looptime
async def test_a_container_that_has_done_its_work_is_no_cause(cluster: Cluster) -> None:
    add_node(cluster)
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": NOW}
    given = pod(
        containerStatuses=[
            {
                "name": "app",
                "ready": False,
                "image": "a",
                "imageID": "",
                "restartCount": 1,
                "state": {"terminated": ended},
            }
        ],
        conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": NOW}],
    )
    given["spec"]["restartPolicy"] = "OnFailure"
    cluster.add("Pod", "web", **given)
    assert await causes(cluster, "pod/web") == ()


def test_an_object_with_null_in_an_unusual_place_is_explained() -> None:
    """It is read as Go reads it, as the controllers read it."""
    given = {"metadata": {"name": "a", "labels": {"b": None}}, "spec": None}
    found = Item(PODS, given).typed(PODS.type)
    assert (found.metadata.labels, found.spec) == ({"b": ""}, PODS.type().spec)
