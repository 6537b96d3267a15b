"""The steps of a scenario do what those of the tool that made the recordings do."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from tests.clusters import EPOCH, Cluster, RecordingTransport
from tests.conformance.access import Access
from tests.conformance.managers import SwitchedManager
from tests.conformance.player import Player
from tests.conformance.selection import field
from tests.conformance.whole import WholeForm

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def no_manager() -> AsyncGenerator[RecordingTransport, None]:
    yield RecordingTransport(Cluster().transport)


def pod(name: str, **spec: Any) -> JSON:
    containers = [{"name": "c", "image": "app:v1"}]
    metadata = {"name": name, "labels": {"app": name}}
    spec = {"containers": containers, "terminationGracePeriodSeconds": 5, **spec}
    return {"create": {"kind": "Pod", "metadata": metadata, "spec": spec}}


async def play(
    cluster: Cluster, *steps: JSON, manager: SwitchedManager | None = None
) -> list[JSON]:
    """Play steps in the namespace "n"; return what the player returns."""
    async with manager or SwitchedManager(no_manager) as playing:
        player = Player(cluster.transport, "n", cluster.clock, WholeForm(), playing)
        return await player.play(list(steps))


async def pods(cluster: Cluster, *paths: str) -> dict[str, list[Any]]:
    """Return the values of fields of each pod."""
    found = await Access(cluster.transport, "n").items("Pod")
    return {
        each["metadata"]["name"]: [field(each, path) for path in paths]
        for each in found
    }


def ago(seconds: float) -> str:
    """Return a time before the beginning of the test."""
    return format_time(EPOCH - timedelta(seconds=seconds))


async def test_pods_become_ready_and_end(cluster: Cluster) -> None:
    """As their kubelet would report it, some time ago."""
    await play(
        cluster,
        *map(pod, ("a", "b", "c")),
        {"ready": {"selector": "app=a", "ago": 5}},
        {"finish": {"name": "b"}},
        {"finish": {"name": "c", "phase": "Failed", "exitCode": 3, "ago": 60}},
    )
    terminated = "status.containerStatuses.state.terminated"
    assert await pods(
        cluster,
        "status.phase",
        "status.conditions.type",
        "status.startTime",
        f"{terminated}.exitCode",
        f"{terminated}.finishedAt",
    ) == {
        "a": ["Running", list(WholeForm.ready), ago(5), None, None],
        "b": ["Succeeded", ["Ready", "ContainersReady"], None, [0], [ago(0)]],
        "c": ["Failed", ["Ready", "ContainersReady"], None, [3], [ago(60)]],
    }


async def test_pods_are_changed(cluster: Cluster) -> None:
    status = {"conditions": [{"type": "Mine", "status": "True"}], "reason": "Test"}
    await play(
        cluster,
        pod("a"),
        {"ready": {}},
        {"podstatus": {"name": "a", "status": status}},
        {"podpatch": {"name": "a", "patch": {"metadata": {"labels": {"app": "x"}}}}},
    )
    assert await pods(
        cluster, "status.conditions.type", "status.reason", "metadata.labels"
    ) == {"a": [["Mine"], "Test", {"app": "x"}]}


async def test_pods_are_bound(cluster: Cluster) -> None:
    """To the node of the step, or each to the node that it asks for by name."""
    term = {"matchFields": [{"key": "metadata.name", "values": ["n1"]}]}
    required = {"nodeSelectorTerms": [term]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    await play(
        cluster,
        pod("asks", affinity=affinity),
        pod("free"),
        pod("given"),
        {"bind": {"name": "given", "node": "n2"}},
        {"bind": {}},
    )
    assert await pods(cluster, "spec.nodeName") == {
        "asks": ["n1"],
        "free": [None],
        "given": ["n2"],
    }


async def test_deleted_pods_stay_while_their_kubelet_ends_them(
    cluster: Cluster,
) -> None:
    steps: list[JSON] = [
        pod("bound"),
        pod("other"),
        pod("free"),
        {"bind": {"name": "bound", "node": "fake-0"}},
        {"bind": {"name": "other", "node": "fake-0"}},
        {"poddelete": {}},
        {"pods": {"n": 2, "terminating": True}},
        {"poddelete": {"name": "other", "terminating": True, "grace": 0}},
    ]
    await play(cluster, *steps)
    assert await pods(cluster, "metadata.deletionGracePeriodSeconds") == {"bound": [5]}


async def test_an_eviction_is_answered(cluster: Cluster) -> None:
    played = await play(cluster, pod("a"), {"evict": {"name": "a"}}, {"check": "gone"})
    state: JSON = {"Pod": [], "Event": []}
    assert played == [{"evict": 201}, {"check": "gone", "state": state}]


async def test_pending_pods_run_by_themselves(cluster: Cluster) -> None:
    """As long as the scenario wants it."""
    await play(
        cluster,
        {"auto": "run"},
        pod("early"),
        pod("gated", schedulingGates=[{"name": "example.com/gate"}]),
        {"sleep": 1},
        {"auto": None},
        pod("late"),
        {"sleep": 1},
    )
    assert await pods(cluster, "status.phase") == {
        "early": ["Running"],
        "gated": ["Pending"],
        "late": ["Pending"],
    }


async def test_pending_pods_run_and_end_by_themselves(cluster: Cluster) -> None:
    """When a scenario says so."""
    await play(cluster, {"auto": "finish"}, pod("a"), {"sleep": 1})
    assert await pods(cluster, "status.phase") == {"a": ["Succeeded"]}


async def test_values_that_are_known_late_are_filled_in(cluster: Cluster) -> None:
    """Uids, times, and minutes since 1970."""
    late = pod("{minutes:60}")
    text = "{uid:Pod/owner} {now:-30} {minutes:86400}"
    late["create"]["metadata"]["annotations"] = {"text": text}
    await play(cluster, pod("owner"), {"second": 45}, {"sleep": 40}, late)
    found = await pods(cluster, "metadata.uid", "metadata.annotations.text")
    minutes = int(EPOCH.timestamp()) // 60
    assert found[str(minutes + 1)][1] == f"{found['owner'][0]} {ago(-55)} {minutes}"


async def test_a_scenario_waits_for_a_field_and_a_condition(cluster: Cluster) -> None:
    condition = {"type": "Ready", "status": "True"}
    until = {"status.phase": "Running", "status.reason": None}
    before = cluster.clock.monotonic()
    await play(
        cluster,
        pod("a"),
        {"ready": {}},
        {"wait": {"kind": "Pod", "name": "a", "until": until, "condition": condition}},
        {"poddelete": {}},
        {"wait": {"kind": "Pod", "name": "a", "until": {"reason": "NotFound"}}},
    )
    assert cluster.clock.monotonic() - before < 1


async def test_an_object_that_was_made_again_is_gone(cluster: Cluster) -> None:
    """Though there is one of its name whenever the player looks."""
    gone = {"kind": "ConfigMap", "name": "a", "until": {"code": 404}}
    made = {"kind": "ConfigMap", "metadata": {"name": "a"}}
    before = cluster.clock.monotonic()
    await play(
        cluster,
        {"create": made},
        {"delete": {"kind": "ConfigMap", "name": "a"}},
        {"create": made},
        {"wait": gone},
    )
    assert cluster.clock.monotonic() == before


@pytest.mark.parametrize(
    "step",
    [
        {"pods": {"n": 2, "timeout": 3}},
        {"wait": {"kind": "Pod", "name": "a", "until": {"a.b": 1}, "timeout": 3}},
    ],
)
async def test_what_never_comes_is_not_waited_for_without_end(
    cluster: Cluster, step: JSON
) -> None:
    before = cluster.clock.monotonic()
    with pytest.raises(AssertionError):
        await play(cluster, pod("a"), step)
    assert 3 <= cluster.clock.monotonic() - before < 4


async def test_the_manager_is_stopped_and_started(cluster: Cluster) -> None:
    """It catches up with the changes of the meantime when it is back."""
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "app:v1"}]},
        },
    }
    web = {"kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}
    manager = SwitchedManager(cluster.manager)
    smaller = {"kind": "ReplicaSet", "name": "web", "patch": {"spec": {"replicas": 1}}}
    checkpoints = await play(
        cluster,
        {"restart": None},
        {"create": web},
        {"check": "stopped"},
        {"start": None},
        {"pods": {"n": 2}},
        {"restart": None},
        {"patch": smaller},
        {"check": "stopped again"},
        {"start": None},
        {"check": "started"},
        manager=manager,
    )
    counts = [
        sum(each.get("count", 1) for each in checkpoint["state"]["Pod"])
        for checkpoint in checkpoints
    ]
    assert counts == [0, 2, 1]
    assert [each["metadata"]["generateName"] for each in manager.created()] == [
        "web-",
        "web-",
    ]
    deletions = [each.path for each in manager.writes if each.method == "DELETE"]
    assert len(deletions) == 1


async def test_stored_objects_are_changed_where_the_api_server_allows_no_change(
    cluster: Cluster,
) -> None:
    """As an older API server may have left it; the name is the same."""
    revision = {
        "kind": "ControllerRevision",
        "metadata": {"name": "web-1", "labels": {"app": "web"}},
        "data": {"spec": {"a": 1, "b": 2}},
        "revision": 1,
    }
    merge = {"data": {"spec": {"b": None}}}
    await play(
        cluster,
        {"create": revision},
        {"etcd": {"kind": "ControllerRevision", "name": "web-*", "merge": merge}},
    )
    kind = cluster.server.catalogue.find("apps", "v1", "controllerrevisions")
    assert kind is not None
    (stored,) = cluster.server.storage.collection(kind.resource)
    assert stored.obj["metadata"]["labels"] == {"app": "web"}
    assert (stored.obj["metadata"]["name"], stored.obj["data"]) == (
        "web-1",
        {"spec": {"a": 1}},
    )


async def test_ready_pods_may_have_addresses(cluster: Cluster) -> None:
    """They are numbered, oldest first; also those that become ready by themselves."""
    await play(
        cluster,
        *map(pod, ("a", "b")),
        {"ready": {"ip": "10.0.0.N", "first": 7}},
        {"auto": {"ago": 600}},
        pod("c"),
        {"sleep": 1},
    )
    assert await pods(cluster, "status.podIPs", "status.startTime") == {
        "a": [[{"ip": "10.0.0.7"}], ago(0)],
        "b": [[{"ip": "10.0.0.8"}], ago(0)],
        "c": [None, ago(600)],
    }


async def test_many_steps_are_numbered(cluster: Cluster) -> None:
    steps = [pod("p{i}"), {"ready": {"name": "p{i}", "ip": "10.2.{hi}.{lo}"}}]
    await play(cluster, {"many": {"from": 249, "to": 250, "steps": steps}})
    assert await pods(cluster, "status.podIP", "status.phase") == {
        "p249": ["10.2.0.250", "Running"],
        "p250": ["10.2.1.1", "Running"],
    }


async def test_the_oldest_of_a_prefix_is_changed_and_deleted(cluster: Cluster) -> None:
    """A name that ends in a star stands for it."""
    mark = {"metadata": {"labels": {"app": "marked"}}}
    await play(
        cluster,
        pod("web-b"),
        {"sleep": 1.0},
        pod("web-a"),
        pod("db"),
        {"patch": {"kind": "Pod", "name": "web-*", "type": "merge", "patch": mark}},
        {"delete": {"kind": "Pod", "name": "web-a*"}},
    )
    assert await pods(cluster, "metadata.labels.app") == {
        "db": ["db"],
        "web-b": ["marked"],
    }
    with pytest.raises(AssertionError, match=r"^there is no Pod api-\*$"):
        await play(Cluster(), {"delete": {"kind": "Pod", "name": "api-*"}})


async def test_what_the_metrics_apis_answer_is_set_by_an_object(
    cluster: Cluster,
) -> None:
    last = {"external": {"queue": [{"value": "7"}]}}
    await play(cluster, {"metrics": {"fail": 503}}, {"metrics": last})
    (found,) = await Access(cluster.transport, "n").items("ConfigMap")
    assert json.loads(found["data"]["answers"]) == last


async def test_steps_act_in_another_namespace_and_in_the_name_of_a_user(
    cluster: Cluster,
) -> None:
    where = {"kind": "ConfigMap", "name": "info", "namespace": "kube-system"}
    event = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "n-1"},
        "type": "Normal",
        "reason": "Seen",
        "message": "seen",
        "source": {"component": "test"},
    }
    steps: list[JSON] = [
        {
            "create": {
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "kube-system"},
                "data": {"a": "1"},
                "as": {"user": "robot", "groups": ["system:masters"]},
            }
        }
        for name in ("info", "other")
    ]
    steps += [
        {"patch": {**where, "patch": {"data": {"a": "2"}}}},
        {"wait": {**where, "until": {"data.a": "2"}}},
        {"create": event},
        {"check": "there"},
        {"delete": where},
        {"check": "gone"},
    ]
    form = WholeForm(also=("ConfigMap kube-system/info*",), cluster_events=True)
    async with SwitchedManager(no_manager) as playing:
        player = Player(cluster.transport, "n", cluster.clock, form, playing)
        played = await player.play(steps)
    there = {"data": {"a": "2"}, "metadata": {"name": "info"}}
    events = ["Node/n-1 Normal Seen [test]: seen"]
    assert [each["state"] for each in played] == [
        {"Pod": [], "Event": events, "ConfigMap@kube-system": [there]},
        {"Pod": [], "Event": events, "ConfigMap@kube-system": []},
    ]
