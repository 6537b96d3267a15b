"""In the strict mode a controller gets only the fields that it has declared."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import NODES, PODS, Pod, PodCondition
from controller_manager.api.meta import PartialObject, Resource
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.factory import ControllerInformers, InformerFactory
from controller_manager.informers.reads import Reads, kept_of
from controller_manager.informers.store import BY_LABEL, Index, Lister
from controller_manager.informers.strict import (
    HiddenType,
    UndeclaredReadError,
    comparisons_reported,
    forbid_undeclared_reads,
    view_of,
)
from tests.clusters import Cluster, factory_of

METADATA: Resource[PartialObject] = Resource(
    "", "v1", "pods", "Pod", PartialObject, metadata_only=True
)
WIRE = {
    "metadata": {"name": "a", "uid": "u", "labels": {"app": "web"}, "generation": 2},
    "spec": {
        "nodeName": "node-1",
        "hostname": "h",
        "containers": [{"name": "c", "image": "i"}],
    },
    "status": {
        "phase": "Running",
        "reason": "r",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True"},
        ],
        "containerStatuses": [{"name": "c", "restartCount": 3}],
    },
}

UNBOUND = {"containers": [{"name": "c", "image": "i"}]}


@pytest.fixture(autouse=True)
def _expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these tests raise the error that fails all others."""
    forbid_undeclared_reads()
    monkeypatch.setattr(UndeclaredReadError, "__init__", Exception.__init__)


def viewed(*paths: str) -> Pod:
    view = view_of(Pod, kept_of([Reads(PODS, *paths)]))
    assert view is not None
    found: Pod = view(msgspec.convert(WIRE, Pod))
    return found


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda pod: pod.status.phase, "PodStatus phase"),
        (lambda pod: pod.metadata.generation, "PodMeta generation"),
        (lambda pod: pod.status.container_statuses[0].name, "ContainerStatus name"),
        (lambda pod: pod.spec.containers, "PodSpec containers"),
    ],
)
def test_an_undeclared_field_raises(read: Callable[[Pod], Any], text: str) -> None:
    pod = viewed("spec.nodeName", "status.containerStatuses.restartCount")
    with pytest.raises(UndeclaredReadError) as caught:
        read(pod)
    assert str(caught.value) == (
        f"{text} was read from a cache, but the controller does not declare it; add "
        "its path to the Reads of the controller's Descriptor"
    )
    assert read(msgspec.convert(WIRE, Pod)) is not None


def test_declared_fields_and_the_identity_can_be_read() -> None:
    pod = viewed("spec.nodeName", "status.containerStatuses.restartCount")
    statuses = pod.status.container_statuses or ()
    assert (
        *(pod.metadata.name, pod.metadata.uid, pod.metadata.labels),
        *(pod.spec.node_name, [each.restart_count for each in statuses]),
    ) == ("a", "u", {"app": "web"}, "node-1", [3])


def test_only_the_declared_entry_of_a_list_can_be_found() -> None:
    """A search passes the others; a search for one of them raises."""
    scheduled, ready = viewed("status.conditions[Ready]").status.conditions or ()
    assert ready == PodCondition(type="Ready", status="True")
    assert scheduled.type != "Ready"
    with pytest.raises(UndeclaredReadError, match="the entry of type PodScheduled"):
        _ = scheduled.type == "PodScheduled"
    with pytest.raises(UndeclaredReadError, match="the entry of type PodScheduled"):
        _ = {scheduled.type: scheduled}["PodScheduled"]
    with pytest.raises(UndeclaredReadError, match="PodCondition status"):
        _ = scheduled.status
    assert scheduled.type == HiddenType("PodScheduled")


def test_entries_of_which_all_have_a_declared_field_show_it() -> None:
    """One entry is declared whole besides."""
    paths = "status.conditions[Ready]", "status.conditions.type"
    scheduled, ready = viewed(*paths).status.conditions or ()
    assert (scheduled.type, ready.status) == ("PodScheduled", "True")
    with pytest.raises(UndeclaredReadError, match="PodCondition status"):
        _ = scheduled.status


@pytest.mark.parametrize(
    "declared", [[], [Reads(PODS)], [Reads(PODS, "spec"), Reads(PODS)]]
)
def test_a_controller_that_reads_whole_objects_needs_no_view(
    declared: list[Reads],
) -> None:
    """It declares nothing of the resource, or declares it without paths."""
    assert kept_of(declared) is None


def test_a_name_that_is_no_field_is_missing_as_ever() -> None:
    with pytest.raises(AttributeError, match="'Pod' object has no attribute 'nope'"):
        _ = viewed("spec").nope  # type: ignore[attr-defined]


def informers(cluster: Cluster) -> InformerFactory:
    return factory_of(cluster, strict_reads=True)


async def run_until_synced(factory: InformerFactory) -> None:
    running = asyncio.create_task(factory.run())
    await factory.wait_for_sync()
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _node_name(pod: Pod) -> tuple[str]:
    return (pod.spec.node_name,)


@pytest.mark.looptime
async def test_each_controller_sees_its_declarations(cluster: Cluster) -> None:
    cluster.add("Pod", "a", spec=WIRE["spec"], status=WIRE["status"])
    factory = informers(cluster)
    of_nodes, of_phases = (
        ControllerInformers(factory, [Reads(PODS, path)], name)
        for path, name in (("spec.nodeName", "one"), ("status.phase", "other"))
    )
    by_node = Index("node", _node_name, depends_on=DependsOn("spec.nodeName"))
    lister = Lister(of_nodes.informer(PODS).store, "Pod", by_node)
    phases: list[str] = []
    errors: list[str] = []

    def added(pod: Pod) -> None:
        phases.append(pod.status.phase)
        with pytest.raises(UndeclaredReadError, match="Pod spec") as caught:
            _ = pod.spec.node_name
        errors.append(str(caught.value))

    of_phases.informer(PODS).add_handler(Handler(on_add=added))
    await run_until_synced(factory)
    (found,) = lister.by_index(by_node, "node-1")
    assert found is lister.get("default", "a")
    assert (found.spec.node_name, phases, len(errors)) == ("node-1", ["Running"], 1)
    with pytest.raises(UndeclaredReadError, match="Pod status"):
        _ = found.status.phase


def test_a_comparison_of_undeclared_fields_raises() -> None:
    """Its result would depend on the declarations of other controllers."""
    with (
        pytest.raises(UndeclaredReadError, match="'phase' is unset"),
        comparisons_reported(),
    ):
        _ = viewed("status.reason").status == viewed("status.reason").status


@pytest.mark.looptime
async def test_a_caller_of_a_monitor_reads_metadata_only(cluster: Cluster) -> None:
    cluster.add("Pod", "a", spec=WIRE["spec"])
    factory = informers(cluster)
    ControllerInformers(factory, [Reads(PODS, "spec.nodeName")], "one").informer(PODS)
    other = ControllerInformers(factory, [Reads(NODES, "spec")], "other")
    monitor = other.monitor(METADATA)
    await run_until_synced(factory)
    (found,) = monitor.store
    assert found.metadata.name == "a"
    with pytest.raises(UndeclaredReadError, match="PodMeta labels"):
        _ = found.metadata.labels
    with pytest.raises(UndeclaredReadError, match="Pod spec"):
        _ = found.spec


@pytest.mark.looptime
async def test_views_of_objects_that_are_gone_are_dropped(cluster: Cluster) -> None:
    """Otherwise each pod that ever lived would stay in memory."""
    for number in range(100):
        cluster.add("Pod", f"pod-{number}", spec=UNBOUND)
    factory = informers(cluster)
    mine = ControllerInformers(factory, [Reads(PODS, "spec.nodeName")], "one")
    store = mine.informer(PODS).store
    store.add_index(BY_LABEL)
    running = asyncio.create_task(factory.run())
    await factory.wait_for_sync()
    assert len(list(store)) == len(store) == 100
    for number in range(99):
        await cluster.client.delete(PODS, "default", f"pod-{number}")
    await asyncio.sleep(1)
    cluster.add("Pod", "last", spec=UNBOUND)
    await asyncio.sleep(1)
    assert sorted(each.metadata.name for each in store) == ["last", "pod-99"]
    views = store._views  # type: ignore[attr-defined]
    assert sorted(views._made) == ["default/last", "default/pod-99"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("paths", [("spec.nodeName", "status.phase"), ()])
@pytest.mark.looptime
async def test_an_update_shows_only_the_parts_that_a_handler_depends_on(
    cluster: Cluster, paths: tuple[str, ...]
) -> None:
    """Otherwise a handler could miss the change of a part that it reads."""
    cluster.add("Pod", "a", spec=WIRE["spec"], status={"phase": "Pending"})
    factory = informers(cluster)
    reads = [Reads(PODS, *paths)]
    seen: list[tuple[str, str]] = []

    def updated(old: Pod, new: Pod) -> None:
        del old
        with pytest.raises(UndeclaredReadError, match=r"PodSpec node_name|Pod spec"):
            _ = new.spec.node_name
        seen.append((new.metadata.name, new.status.phase))

    handler = Handler(on_update=updated, depends_on=DependsOn("status.phase"))
    ControllerInformers(factory, reads, "one").informer(PODS).add_handler(handler)
    running = asyncio.create_task(factory.run())
    await factory.wait_for_sync()
    for patch in ({"labels": {"b": "c"}}, {"annotations": {"b": "c"}}):
        await cluster.client.patch(PODS, "default", "a", {"metadata": patch})
    status = {"status": {"phase": "Running"}}
    await cluster.client.patch(PODS, "default", "a", status, subresource="status")
    await asyncio.sleep(1)
    assert seen == [("a", "Running")]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.looptime
async def test_an_index_that_reads_more_than_it_names_fails(cluster: Cluster) -> None:
    """Its values would be old after the change of a part that it does not name."""
    cluster.add("Pod", "a", spec=WIRE["spec"])
    mine = ControllerInformers(informers(cluster), [Reads(PODS)], "one")
    store = mine.informer(PODS).store
    store._store.put(msgspec.convert(WIRE, Pod))  # type: ignore[attr-defined]
    with pytest.raises(UndeclaredReadError, match="Pod spec"):
        store.add_index(Index("node", _node_name))


@pytest.mark.looptime
async def test_an_undeclared_part_is_refused(cluster: Cluster) -> None:
    """The cache may have dropped it, so that its changes would never be seen."""
    mine = ControllerInformers(informers(cluster), [Reads(PODS, "status.phase")], "one")
    handler: Handler[Pod] = Handler(depends_on=DependsOn("spec.nodeName"))
    with pytest.raises(UndeclaredReadError, match=r"Pod spec\.nodeName"):
        mine.informer(PODS).add_handler(handler)
