"""The fit of nodes for a daemon set."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import msgspec
import pytest

from controller_manager.api.apps.v1 import DaemonSetCondition, DaemonSetStatus
from controller_manager.api.core.scheduling import Toleration
from controller_manager.api.core.v1 import NODES, PODS, Pod, PodTemplateSpec
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.controllers.apps.daemonset.backoff import NO_DELAYS, Delays
from controller_manager.controllers.apps.daemonset.nodes import (
    Fit,
    NodeHandlers,
    placement_of,
    target_of,
)
from controller_manager.controllers.apps.daemonset.pod_template import (
    PodTemplates,
    with_default_tolerations,
)
from controller_manager.controllers.apps.daemonset.pods import (
    DaemonPods,
    Plan,
    calculate_status,
    manage_pods,
)
from controller_manager.runtime.outcome import Outcome
from tests.clusters import Cluster
from tests.controllers.apps.daemonset.builders import (
    NOW,
    Operator,
    daemon_set,
    for_node,
    node,
    placed,
    placed_of,
    pod,
    running,
    summary,
    with_generation,
)
from tests.controllers.user import settle

_WELL_KNOWN = "node.kubernetes.io"
NO_NETWORK = f"{_WELL_KNOWN}/network-unavailable:NoSchedule"


def fit(*taints: str, compares_numbers: bool = False, **spec: Any) -> Fit:
    """Return the fit of node n1 with these taints for a template with this spec."""
    encoded = msgspec.json.encode({"spec": spec})
    template = msgspec.json.decode(encoded, type=PodTemplateSpec)
    placement = placement_of(template, compares_numbers=compares_numbers)
    return placement.fit(node("n1", *taints, pool="a"))


TOLERANT: JSON = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
BELOW = {"key": "load", "operator": "Lt", "value": "9", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "spec", "expected"),
    [
        # Every node must have a pod by default.
        ([], {}, Fit.RUN),
        (["dedicated:PreferNoSchedule"], {}, Fit.RUN),
        # A template chooses nodes by name and labels; affinity is in tests/control.
        ([], {"nodeSelector": {"pool": "a"}}, Fit.RUN),
        ([], {"nodeSelector": {"pool": "b"}}, Fit.NONE),
        ([], {"nodeName": "n1"}, Fit.RUN),
        ([], {"nodeName": "n2"}, Fit.NONE),
        # With NoSchedule a running pod stays; with NoExecute it does not.
        (["dedicated:NoSchedule"], {}, Fit.KEEP),
        (["dedicated:NoExecute"], {}, Fit.NONE),
        (["dedicated:NoSchedule", "other:NoExecute"], {}, Fit.NONE),
        (["dedicated:NoSchedule"], TOLERANT, Fit.RUN),
        (["dedicated:NoExecute"], TOLERANT, Fit.RUN),
        (["dedicated:NoExecute", "other:NoSchedule"], TOLERANT, Fit.KEEP),
        (["dedicated:NoSchedule"], {"nodeSelector": {"pool": "b"}}, Fit.NONE),
        # A daemon pod comes to a node with problems, except to one that is not ready
        # for the first time, or has no network. Network plugins use the host network.
        ([f"{_WELL_KNOWN}/not-ready:NoExecute"], {}, Fit.RUN),
        ([f"{_WELL_KNOWN}/unreachable:NoExecute"], {}, Fit.RUN),
        ([f"{_WELL_KNOWN}/disk-pressure:NoSchedule"], {}, Fit.RUN),
        ([f"{_WELL_KNOWN}/memory-pressure:NoSchedule"], {}, Fit.RUN),
        ([f"{_WELL_KNOWN}/pid-pressure:NoSchedule"], {}, Fit.RUN),
        ([f"{_WELL_KNOWN}/unschedulable:NoSchedule"], {}, Fit.RUN),
        ([f"{_WELL_KNOWN}/not-ready:NoSchedule"], {}, Fit.KEEP),
        ([NO_NETWORK], {}, Fit.KEEP),
        ([NO_NETWORK], {"hostNetwork": True}, Fit.RUN),
        # Numbers are compared only with the gate TaintTolerationComparisonOperators.
        (["load=5:NoSchedule"], {"tolerations": [BELOW]}, Fit.KEEP),
    ],
)
def test_taints_and_labels_decide(taints: list[str], spec: JSON, expected: Fit) -> None:
    assert fit(*taints, **spec) is expected


def test_numbers_are_compared_with_the_gate() -> None:
    tolerations = [BELOW]
    found = fit("load=5:NoSchedule", compares_numbers=True, tolerations=tolerations)
    assert found is Fit.RUN


def test_a_default_toleration_replaces_one_that_is_limited_in_time() -> None:
    limited = Toleration(
        key=f"{_WELL_KNOWN}/not-ready",
        operator="Exists",
        effect="NoExecute",
        toleration_seconds=5,
    )
    own = Toleration(key="dedicated", value="x")
    merged = with_default_tolerations((limited, own), host_network=True)
    assert [
        (each.key.removeprefix(f"{_WELL_KNOWN}/"), each.effect, each.toleration_seconds)
        for each in merged
    ] == [
        ("not-ready", "NoExecute", None),
        ("dedicated", "", None),
        ("unreachable", "NoExecute", None),
        ("disk-pressure", "NoSchedule", None),
        ("memory-pressure", "NoSchedule", None),
        ("pid-pressure", "NoSchedule", None),
        ("unschedulable", "NoSchedule", None),
        ("network-unavailable", "NoSchedule", None),
    ]


ALL = (pod("a", "n1"), pod("b", "n2"), pod("c", "n3"))
FAILED = pod("failed", "n3", phase="Failed")
SUCCEEDED = pod("succeeded", "n3", phase="Succeeded")
SURGING = daemon_set(surge=1, unavailable=0)


LEAVING = pod("c", "n3", leaving=True)
OLD, UNREADY = pod("old", "n3", hash="old"), pod("new", "n3", ready=False)


def sickly(*pods: Pod, surges: bool = False, **fits: Fit) -> DaemonPods:
    """Return the pods of three nodes, of which n1 and n2 have theirs."""
    return placed(*ALL[:2], *pods, of=SURGING if surges else None, **fits)


@pytest.mark.parametrize(
    ("seen", "created", "deleted"),
    [
        # A node gets a pod, not while it has one, even one that is being deleted.
        (placed(), ["n1", "n2", "n3"], []),
        (placed(*ALL), [], []),
        (sickly(), ["n3"], []),
        (sickly(LEAVING), [], []),
        (sickly(pod("c", "n3", bound=False)), [], []),
        # One that has ended and is being deleted does not count: a finalizer keeps it.
        (sickly(pod("c", "n3", leaving=True, phase="Failed")), ["n3"], []),
        (sickly(pod("c", "n3", leaving=True, phase="Succeeded")), ["n3"], []),
        # Pods are deleted where none may run, also one that is not bound yet; a pod
        # stays if no taint ends it.
        (
            placed(
                *ALL,
                *(pod("d", "n4"), pod("e", "n4", bound=False), pod("f", "n5")),
                n4=Fit.NONE,
                n5=Fit.KEEP,
            ),
            [],
            ["d", "e"],
        ),
        (placed(*ALL, pod("d", "n4", leaving=True), n4=Fit.NONE), [], []),
        # Of a node that is gone, the pod garbage collector deletes bound pods.
        (placed(*ALL, pod("d", "n4", bound=False), pod("e", "n5")), [], ["d"]),
        # The oldest of several pods stays; one that has a node counts as older.
        (
            placed(
                *(pod("a0", "n1", created=9), pod("b0", "n2", bound=False)),
                *(pod("c0", "n3", leaving=True), pod("a", "n1", created=1)),
                *(pod("b", "n2", created=5), pod("c", "n3")),
            ),
            [],
            ["a0", "b0"],
        ),
        # Pods that have ended are deleted; a new one is created when they are gone.
        (sickly(FAILED), [], ["failed"]),
        (sickly(SUCCEEDED), [], ["succeeded"]),
        (sickly(FAILED, SUCCEEDED), [], ["failed", "succeeded"]),
        # Failed pods of one node go one by one: the first begins a delay.
        (sickly(FAILED, pod("g", "n3", phase="Failed")), [], ["failed"]),
        (
            sickly(FAILED, pod("g", "n3", phase="Failed"), surges=True),
            ["n3"],
            ["failed"],
        ),
        # With surge a node has two pods until the new one is available, or the old
        # one is not ready.
        (sickly(OLD, UNREADY, surges=True), [], []),
        (sickly(OLD, pod("new", "n3"), surges=True), [], ["old"]),
        (
            sickly(pod("old", "n3", hash="old", ready=False), UNREADY, surges=True),
            [],
            ["old"],
        ),
        # It has one pod of each kind at most, the oldest of the old and of the new.
        (
            sickly(
                pod("old", "n3", hash="old", created=1),
                pod("older", "n3", hash="older", created=0),
                pod("new", "n3", ready=False, created=2),
                pod("newer", "n3", ready=False, created=3),
                surges=True,
            ),
            [],
            ["newer", "old"],
        ),
        # With surge a node gets a pod while the last one is leaving.
        (sickly(LEAVING, surges=True), ["n3"], []),
    ],
)
def test_each_node_gets_and_keeps_its_pod(
    seen: DaemonPods, created: list[str], deleted: list[str]
) -> None:
    assert summary(manage_pods(seen, NO_DELAYS, NOW)) == (created, deleted)


@pytest.mark.parametrize("surges", [False, True])
def test_a_failed_pod_stays_while_there_is_a_delay(surges: bool) -> None:
    """Another sync comes when the delay ends; a succeeded pod never waits."""
    delays = Delays({"n3": 4.0, "n1": 1.0}, {})
    plan = manage_pods(sickly(FAILED, SUCCEEDED, surges=surges), delays, NOW)
    assert (summary(plan), plan.requeue_after) == (([], ["succeeded"]), 4.0)


@pytest.mark.parametrize(
    "seen", [sickly(), sickly(surges=True), sickly(LEAVING, surges=True)]
)
def test_a_failed_pod_that_others_deleted_is_delayed_too(seen: DaemonPods) -> None:
    """Also with surge, beside a pod that is being deleted."""
    delays = Delays({"n3": 4.0, "n1": 1.0}, {"n3": 4.0})
    assert manage_pods(seen, delays, NOW) == Plan(requeue_after=4.0)


def test_one_sync_creates_and_deletes_at_most_250_pods() -> None:
    """The events of these pods cause the next sync."""
    nodes = [f"m{number:03}" for number in range(600)]
    fits = {node: Fit.RUN if node < "m300" else Fit.NONE for node in nodes}
    pods = [pod(f"of-{node}", node) for node in nodes if node >= "m300"]
    plan = manage_pods(placed_of((*ALL, *pods), fits), NO_DELAYS, NOW)
    assert (len(plan.nodes), len(plan.deletions)) == (250, 250)


def test_nothing_to_do_is_an_empty_plan() -> None:
    """So a sync without changes writes nothing."""
    assert manage_pods(placed(*ALL), NO_DELAYS, NOW) == Plan()
    assert Plan().is_empty


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spec_of(node: str = "n1", **spec: Any) -> JSON:
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": spec}
    templates = PodTemplates(daemon_set(template=template), "h")
    decoded: JSON = msgspec.json.decode(templates.for_node(node).spec)
    return decoded


ZONE = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
PREFERRED = {_PREFERRED: [{"weight": 1, "preference": ZONE}]}


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        _REQUIRED: {"nodeSelectorTerms": [ZONE]},
                        **PREFERRED,
                    },
                    "podAntiAffinity": {"of": "any kind"},
                }
            },
            {"nodeAffinity": PREFERRED, "podAntiAffinity": {"of": "any kind"}},
        ),
        ({}, {}),
        ({"affinity": None}, {}),
        ({"affinity": {"nodeAffinity": None}}, {}),
    ],
)
def test_a_pod_requires_its_node_by_name(spec: JSON, kept: JSON) -> None:
    """The node affinity that the template requires is replaced, the rest is kept."""
    assert spec_of("n2", **spec)["affinity"] == for_node("n2", **kept)


def test_no_field_of_the_template_is_lost() -> None:
    spec: JSON = {
        "containers": [{"name": "c", "fancy": [1.50, {"a": None}]}],
        "future": "x",
    }
    made = spec_of(**spec)
    assert {key: made[key] for key in spec} == spec
    assert made.keys() - spec.keys() == {"affinity", "tolerations"}


@pytest.mark.parametrize(
    ("annotation", "more"),
    [("12", {"pod-template-generation": "12"}), ("twelve", {}), ("", {})],
)
def test_labels_tell_revision_and_generation(annotation: str, more: JSON) -> None:
    """The generation is deprecated; an annotation that is no number is ignored."""
    templates = PodTemplates(with_generation(annotation), "h")
    labels = {"app": "agent", "controller-revision-hash": "h", **more}
    assert templates.for_node("n").metadata.labels == labels


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeName": "n1"}, "n1"),
        ({"nodeName": "n1", "affinity": for_node("n2")}, "n1"),
        ({"affinity": for_node("n2")}, "n2"),
        ({}, ""),
        ({"affinity": {}}, ""),
        ({"affinity": {"nodeAffinity": {}}}, ""),
        ({"affinity": {"nodeAffinity": {_REQUIRED: {}}}}, ""),
        # As upstream, which ignores pods that ask for several nodes.
        ({"affinity": for_node("n1", "n2")}, ""),
    ],
)
def test_a_pod_is_for_the_node_that_it_asks_for(spec: JSON, expected: str) -> None:
    """A pod of another client may belong to no certain node."""
    assert target_of(msgspec.convert({"spec": spec}, Pod)) == expected


def test_each_node_counts_by_its_pod() -> None:
    seen = placed(
        pod("a", "n1"),
        pod("b", "n2", ready=False, hash="old"),
        pod("d", "n4", since=55),
        pod("e", "n5"),
        pod("f", "n6", leaving=True),
        pod("g", "gone"),
        of=daemon_set(minReadySeconds=10),
        n4=Fit.RUN,
        n5=Fit.KEEP,
        n6=Fit.NONE,
        n7=Fit.NONE,
    )
    assert calculate_status(seen, NOW, is_processed=True) == DaemonSetStatus(
        desired_number_scheduled=4,
        current_number_scheduled=3,
        number_misscheduled=2,
        number_ready=2,
        number_available=1,
        number_unavailable=3,
        updated_number_scheduled=2,
        observed_generation=1,
    )


def test_a_node_counts_by_its_oldest_pod_even_if_that_is_leaving() -> None:
    """During a surge the new pod counts once the old one is gone."""
    seen = placed(
        pod("new", "n1", ready=False, created=2),
        pod("old", "n1", hash="old", created=1, leaving=True),
        n2=Fit.NONE,
        n3=Fit.NONE,
    )
    status = calculate_status(seen, NOW, is_processed=True)
    assert status == DaemonSetStatus(
        desired_number_scheduled=1,
        current_number_scheduled=1,
        number_ready=1,
        number_available=1,
        observed_generation=1,
    )


def test_fields_that_the_controller_does_not_count_are_kept() -> None:
    """Conditions of others, collisions, and the generation that was not processed."""
    conditions = (DaemonSetCondition(type="Custom", status="True"),)
    former = DaemonSetStatus(
        conditions=conditions, collision_count=3, observed_generation=7
    )
    obj = msgspec.structs.replace(daemon_set(), status=former)
    status = calculate_status(placed(of=obj), NOW, is_processed=False)
    assert status == DaemonSetStatus(
        conditions=conditions,
        collision_count=3,
        observed_generation=7,
        desired_number_scheduled=3,
        number_unavailable=3,
    )


def test_placed_pods_show_what_their_sync_has_written() -> None:
    """Before the cache does, so the status is not written twice."""
    before = placed(pod("a", "n1", hash="old"), pod("b", "n2"))
    after = before.after([pod("c", "n3", ready=False, bound=False)], ["a"])
    assert [each.metadata.name for each in after.on("n3")] == ["c"]
    assert (after.staying("n1"), len(after.on("n1"))) == ([], 1)
    again = after.after([], ["b"])
    assert (again.staying("n1"), again.staying("n2")) == ([], [])
    assert len(before.staying("n1")) == 1


_AT_ONCE = DeleteOptions(grace_period_seconds=0)


@asynccontextmanager
async def held_node_workers(
    cluster: Cluster, *nodes: str
) -> AsyncGenerator[tuple[Operator, asyncio.Event], None]:
    """Run a manager whose node workers wait until the event is set."""
    may_look = asyncio.Event()
    may_look.set()
    sync_node = NodeHandlers.sync_node

    async def held(self: NodeHandlers, name: str) -> Outcome:
        await may_look.wait()
        return await sync_node(self, name)

    with mock.patch.object(NodeHandlers, "sync_node", held):
        async with running(cluster, *nodes) as (operator, _):
            yield operator, may_look
            may_look.set()
            await settle(1)


async def cause_a_sync(operator: Operator, pod: str) -> None:
    """Change a pod in a way that only causes a sync of its daemon set."""
    await operator.patch(PODS, pod, {"metadata": {"annotations": {"touched": "yes"}}})
    await settle(1)


@pytest.mark.looptime
async def test_a_pod_stays_before_its_new_node_is_processed(cluster: Cluster) -> None:
    """The fit of a node that the compiled template lacks is computed at once."""
    async with held_node_workers(cluster, "n1", "n2") as (operator, may_look):
        await operator.run_all()
        before = await operator.placed()
        await operator.client.delete(NODES, "", "n1")
        await settle(1)
        may_look.clear()
        await operator.add_node("n1")
        await cause_a_sync(operator, before["n2"][0])
        assert [each for each in await operator.pods() if is_deleting(each)] == []
        assert await operator.numbers() == (2, 2, 2, 2, 0)
    assert await operator.placed() == before


@pytest.mark.looptime
async def test_an_unfit_pod_on_an_unknown_node_is_deleted(cluster: Cluster) -> None:
    """The fit is that of the cached node; unknown nodes are not spared."""
    async with held_node_workers(cluster, "n1", "n2") as (operator, may_look):
        await operator.run_all()
        before = await operator.placed()
        await operator.client.delete(NODES, "", "n1")
        await settle(1)
        may_look.clear()
        await operator.add_node("n1", taint="x:NoExecute")
        await cause_a_sync(operator, before["n2"][0])
        pod = await operator.client.get(PODS, "default", before["n1"][0])
        assert pod.metadata.deletion_timestamp is not None


@pytest.mark.looptime
async def test_no_pod_is_created_on_a_node_that_fits_no_more(cluster: Cluster) -> None:
    """Nor for a node that is gone, although both were suitable before."""
    async with held_node_workers(cluster, "n1", "n2", "n3") as (operator, may_look):
        await operator.run_all()
        before = await operator.placed()
        may_look.clear()
        await operator.taint("n1", "reserved")
        await operator.client.delete(NODES, "", "n2")
        for node in ("n1", "n2"):
            await operator.client.delete(PODS, "default", before[node][0], _AT_ONCE)
        await cause_a_sync(operator, before["n3"][0])
        assert await operator.placed() == {"n3": before["n3"]}
        assert await operator.numbers() == (1, 1, 1, 1, 0)
