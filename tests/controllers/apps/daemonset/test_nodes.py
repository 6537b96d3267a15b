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
from controller_manager.client.rest.client import DeleteOptions, PatchType
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
)
from tests.controllers.user import settle

_WELL_KNOWN = "node.kubernetes.io"


def fit(*taints: str, compares_numbers: bool = False, **spec: Any) -> Fit:
    """Return the fit of node n1 with these taints for a template with this spec."""
    encoded = msgspec.json.encode({"spec": spec})
    template = msgspec.json.decode(encoded, type=PodTemplateSpec)
    placement = placement_of(template, compares_numbers=compares_numbers)
    return placement.fit(node("n1", *taints, pool="a"))


def test_every_node_must_have_a_pod_by_default() -> None:
    """Also a node with the taint effect PreferNoSchedule."""
    assert fit() is Fit.RUN
    assert fit("dedicated:PreferNoSchedule") is Fit.RUN


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"pool": "a"}}, Fit.RUN),
        ({"nodeSelector": {"pool": "b"}}, Fit.NONE),
        ({"nodeName": "n1"}, Fit.RUN),
        ({"nodeName": "n2"}, Fit.NONE),
    ],
)
def test_a_template_chooses_nodes_by_name_and_labels(
    spec: dict[str, Any], expected: Fit
) -> None:
    """Required node affinity is in tests/control/scheduling."""
    assert fit(**spec) is expected


def test_an_untolerated_taint_keeps_pods_or_removes_them() -> None:
    """With NoSchedule a running pod stays; with NoExecute it does not."""
    assert fit("dedicated:NoSchedule") is Fit.KEEP
    assert fit("dedicated:NoExecute") is Fit.NONE
    assert fit("dedicated:NoSchedule", "other:NoExecute") is Fit.NONE
    tolerant = {"key": "dedicated", "operator": "Exists"}
    assert fit("dedicated:NoSchedule", tolerations=[tolerant]) is Fit.RUN
    assert fit("dedicated:NoExecute", tolerations=[tolerant]) is Fit.RUN
    both = ("dedicated:NoExecute", "other:NoSchedule")
    assert fit(*both, tolerations=[tolerant]) is Fit.KEEP
    assert fit("dedicated:NoSchedule", nodeSelector={"pool": "b"}) is Fit.NONE


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        ("not-ready:NoExecute", Fit.RUN),
        ("unreachable:NoExecute", Fit.RUN),
        ("disk-pressure:NoSchedule", Fit.RUN),
        ("memory-pressure:NoSchedule", Fit.RUN),
        ("pid-pressure:NoSchedule", Fit.RUN),
        ("unschedulable:NoSchedule", Fit.RUN),
        ("not-ready:NoSchedule", Fit.KEEP),
        ("network-unavailable:NoSchedule", Fit.KEEP),
    ],
)
def test_a_daemon_pod_comes_to_a_node_with_problems(taint: str, expected: Fit) -> None:
    """Except to a node that is not ready for the first time, or has no network."""
    assert fit(f"{_WELL_KNOWN}/{taint}") is expected


def test_on_the_host_network_no_network_is_needed() -> None:
    """The pods of network plugins use the host network."""
    taint = f"{_WELL_KNOWN}/network-unavailable:NoSchedule"
    assert fit(taint, hostNetwork=True) is Fit.RUN


def test_numbers_are_compared_only_with_the_gate() -> None:
    """TaintTolerationComparisonOperators."""
    below = {"key": "load", "operator": "Lt", "value": "9", "effect": "NoSchedule"}
    taint = "load=5:NoSchedule"
    assert fit(taint, tolerations=[below]) is Fit.KEEP
    assert fit(taint, tolerations=[below], compares_numbers=True) is Fit.RUN


def test_a_default_toleration_replaces_one_that_is_limited_in_time() -> None:
    """It has the same place; all others follow in upstream's order."""
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


def managed(seen: DaemonPods) -> tuple[list[str], list[str]]:
    return summary(manage_pods(seen, NO_DELAYS, NOW))


def test_a_node_that_must_have_a_pod_gets_one() -> None:
    """Not while it has a pod, even a pod that is being deleted."""
    assert managed(placed()) == (["n1", "n2", "n3"], [])
    assert managed(placed(*ALL)) == ([], [])
    assert managed(placed(*ALL[:2])) == (["n3"], [])
    assert managed(placed(*ALL[:2], pod("c", "n3", leaving=True))) == ([], [])
    assert managed(placed(*ALL[:2], pod("c", "n3", bound=False))) == ([], [])


def test_a_pod_that_has_ended_and_is_being_deleted_does_not_count() -> None:
    """A finalizer may keep it; its node needs a pod now."""
    for phase in ("Failed", "Succeeded"):
        ended = pod("c", "n3", leaving=True, phase=phase)
        assert managed(placed(*ALL[:2], ended)) == (["n3"], [])


def test_pods_are_deleted_where_none_may_run() -> None:
    """Also a pod that is not bound yet; a pod stays if no taint ends it."""
    others = (pod("d", "n4"), pod("e", "n4", bound=False), pod("f", "n5"))
    seen = placed(*ALL, *others, n4=Fit.NONE, n5=Fit.KEEP)
    assert managed(seen) == ([], ["d", "e"])
    assert managed(placed(*ALL, pod("d", "n4", leaving=True), n4=Fit.NONE)) == ([], [])


def test_an_unbound_pod_for_a_node_that_is_gone_is_deleted() -> None:
    """The pod garbage collector deletes a bound pod."""
    others = (pod("d", "n4", bound=False), pod("e", "n5"))
    assert managed(placed(*ALL, *others)) == ([], ["d"])


def test_the_oldest_of_several_pods_stays() -> None:
    """A pod that has a node counts as older."""
    others = (
        pod("a0", "n1", created=9),
        pod("b0", "n2", bound=False, created=0),
        pod("c0", "n3", leaving=True),
    )
    older = (pod("a", "n1", created=1), pod("b", "n2", created=5), pod("c", "n3"))
    assert managed(placed(*others, *older)) == ([], ["a0", "b0"])


def test_pods_that_have_ended_are_deleted() -> None:
    """A new pod is created when the old one is gone."""
    assert managed(placed(*ALL[:2], FAILED)) == ([], ["failed"])
    assert managed(placed(*ALL[:2], SUCCEEDED)) == ([], ["succeeded"])
    assert managed(placed(*ALL[:2], FAILED, SUCCEEDED)) == ([], ["failed", "succeeded"])


def test_a_failed_pod_stays_while_there_is_a_delay() -> None:
    """Another sync comes when the delay ends; a succeeded pod never waits."""
    delays = Delays({"n3": 4.0, "n1": 1.0}, {})
    for of in (None, SURGING):
        plan = manage_pods(placed(*ALL[:2], FAILED, SUCCEEDED, of=of), delays, NOW)
        assert (summary(plan), plan.requeue_after) == (([], ["succeeded"]), 4.0)


def test_a_node_whose_failed_pod_others_deleted_gets_none_before_the_delay_ends() -> (
    None
):
    """Also with surge, beside a pod that is being deleted."""
    delays = Delays({"n3": 4.0, "n1": 1.0}, {"n3": 4.0})
    for of in (None, SURGING):
        plan = manage_pods(placed(*ALL[:2], of=of), delays, NOW)
        assert plan == Plan(requeue_after=4.0)
    leaving = pod("c", "n3", leaving=True)
    plan = manage_pods(placed(*ALL[:2], leaving, of=SURGING), delays, NOW)
    assert plan == Plan(requeue_after=4.0)


def test_failed_pods_of_one_node_are_deleted_one_by_one() -> None:
    """The deletion of the first begins a delay for the second."""
    both = (pod("c", "n3", phase="Failed"), pod("d", "n3", phase="Failed"))
    assert managed(placed(*ALL[:2], *both)) == ([], ["c"])
    assert managed(placed(*ALL[:2], *both, of=SURGING)) == (["n3"], ["c"])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pod("old", "n3", hash="old"), pod("new", "n3", ready=False), []),
        (pod("old", "n3", hash="old"), pod("new", "n3"), ["old"]),
        (
            pod("old", "n3", hash="old", ready=False),
            pod("new", "n3", ready=False),
            ["old"],
        ),
    ],
)
def test_with_surge_a_node_has_two_pods_until_one_is_superseded(
    old: Pod, new: Pod, expected: list[str]
) -> None:
    """The old pod is deleted if the new pod is available, or if it is not ready."""
    assert managed(placed(*ALL[:2], old, new, of=SURGING)) == ([], expected)


def test_with_surge_a_node_has_one_pod_of_each_kind_at_most() -> None:
    """The oldest of the old and the oldest of the new ones."""
    pods = [
        pod("old", "n3", hash="old", created=1),
        pod("older", "n3", hash="older", created=0),
        pod("new", "n3", ready=False, created=2),
        pod("newer", "n3", ready=False, created=3),
    ]
    seen = placed(*ALL[:2], *pods, of=SURGING)
    assert managed(seen) == ([], ["newer", "old"])


def test_with_surge_a_node_gets_a_pod_while_the_last_one_is_leaving() -> None:
    """Without surge the node waits until the last pod is gone."""
    leaving = pod("c", "n3", leaving=True)
    assert managed(placed(*ALL[:2], leaving, of=SURGING)) == (["n3"], [])
    assert managed(placed(*ALL[:2], leaving)) == ([], [])


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
    """Return the spec of a pod for a node, made from a template with this spec."""
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": spec}
    templates = PodTemplates(daemon_set(template=template), "h")
    decoded: JSON = msgspec.json.decode(templates.for_node(node).spec)
    return decoded


def test_a_pod_requires_its_node_by_name() -> None:
    """The node affinity that the template requires is replaced, the rest is kept."""
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    affinity = {
        "nodeAffinity": {
            _REQUIRED: {"nodeSelectorTerms": [zone]},
            _PREFERRED: [{"weight": 1, "preference": zone}],
        },
        "podAntiAffinity": {"of": "any kind"},
    }
    assert spec_of("n2", affinity=affinity)["affinity"] == for_node(
        "n2",
        nodeAffinity={_PREFERRED: [{"weight": 1, "preference": zone}]},
        podAntiAffinity={"of": "any kind"},
    )
    assert spec_of("n3")["affinity"] == for_node("n3")
    assert spec_of("n3", affinity=None)["affinity"] == for_node("n3")
    with_null = {"nodeAffinity": None}
    assert spec_of("n3", affinity=with_null)["affinity"] == for_node("n3")


def test_no_field_of_the_template_is_lost() -> None:
    """Also a field that this build does not know."""
    spec: JSON = {
        "containers": [{"name": "c", "fancy": [1.50, {"a": None}]}],
        "future": "x",
    }
    made = spec_of(**spec)
    assert {key: made[key] for key in spec} == spec
    assert made.keys() - spec.keys() == {"affinity", "tolerations"}


def test_labels_tell_the_revision_and_the_template_generation() -> None:
    """The generation is deprecated; an annotation that is no number is ignored."""
    for annotation, more in (
        ("12", {"pod-template-generation": "12"}),
        ("twelve", {}),
        ("", {}),
    ):
        obj = daemon_set()
        annotations = {"deprecated.daemonset.template.generation": annotation}
        metadata = msgspec.structs.replace(obj.metadata, annotations=annotations)
        templates = PodTemplates(msgspec.structs.replace(obj, metadata=metadata), "h")
        assert templates.for_node("n").metadata.labels == {
            "app": "agent",
            "controller-revision-hash": "h",
            **more,
        }


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
    ],
)
def test_a_pod_is_for_the_node_that_it_has_or_asks_for(
    spec: JSON, expected: str
) -> None:
    """A pod of another client may belong to no certain node."""
    assert target_of(msgspec.convert({"spec": spec}, Pod)) == expected


def test_a_pod_that_asks_for_several_nodes_is_for_none() -> None:
    """As upstream, which ignores such pods."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}
    terms = [{"matchFields": [field]}]
    required = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    assert target_of(msgspec.convert({"spec": {"affinity": required}}, Pod)) == ""


def test_each_node_counts_by_its_pod() -> None:
    """A node that need not have a pod but has one counts as misscheduled."""
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
    patch = {"metadata": {"annotations": {"touched": "yes"}}}
    await operator.client.patch(PODS, "default", pod, patch, PatchType.MERGE)
    await settle(1)


@pytest.mark.looptime
async def test_a_pod_on_a_node_that_came_back_stays_before_the_node_is_processed(
    cluster: Cluster,
) -> None:
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
async def test_a_pod_on_an_unknown_node_that_does_not_fit_is_deleted_at_once(
    cluster: Cluster,
) -> None:
    """The fit is that of the cached node; unknown nodes are not spared."""
    async with held_node_workers(cluster, "n1", "n2") as (operator, may_look):
        await operator.run_all()
        before = await operator.placed()
        await operator.client.delete(NODES, "", "n1")
        await settle(1)
        may_look.clear()
        cluster.add(
            "Node", "n1", spec={"taints": [{"key": "x", "effect": "NoExecute"}]}
        )
        await cause_a_sync(operator, before["n2"][0])
        pod = await operator.client.get(PODS, "default", before["n1"][0])
        assert pod.metadata.deletion_timestamp is not None


@pytest.mark.looptime
async def test_no_pod_is_created_on_a_node_that_has_just_ceased_to_fit(
    cluster: Cluster,
) -> None:
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
