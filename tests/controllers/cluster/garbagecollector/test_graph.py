"""The graph of owners and dependents alone."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.meta import OwnerReference, PartialMetadata, PartialObject
from controller_manager.clock import SystemClock
from controller_manager.controllers.cluster.garbagecollector.dump import draw
from controller_manager.controllers.cluster.garbagecollector.graph import (
    Graph,
    Identity,
    Node,
)
from controller_manager.controllers.cluster.garbagecollector.monitors import (
    GraphChanges,
)
from controller_manager.observability.metrics.client import QueueCollectors

pytestmark = pytest.mark.looptime


def _object(name: str, *owners: OwnerReference, namespace: str = "n") -> PartialObject:
    return PartialObject(
        metadata=PartialMetadata(
            name=name, namespace=namespace, uid=name, owner_references=owners or None
        )
    )


def _reference(name: str, uid: str = "", kind: str = "ConfigMap") -> OwnerReference:
    return OwnerReference(api_version="v1", kind=kind, name=name, uid=uid or name)


class Bookkeeping:
    """A graph, and the calls that it made."""

    def __init__(self) -> None:
        self.to_delete: list[str] = []
        self.invalid_namespaces: list[tuple[str, str]] = []
        self.graph = Graph(
            self.to_delete.append, self.to_delete.append, self._record_invalid_namespace
        )

    def _record_invalid_namespace(self, node: Node, reference: OwnerReference) -> None:
        self.invalid_namespaces.append((node.uid, reference.uid))

    def see(self, *objects: PartialObject) -> None:
        for each in objects:
            self.graph.seen(CONFIG_MAPS, None, each)

    def asked(self) -> list[str]:
        asked, self.to_delete[:] = list(self.to_delete), []
        return asked


async def test_an_owner_that_is_seen_after_its_dependent_is_no_longer_virtual() -> None:
    """It was enqueued once while it was virtual."""
    books = Bookkeeping()
    books.see(_object("child", _reference("owner")))
    owner = books.graph.nodes.get("owner")
    assert owner is not None
    assert (owner.is_virtual, books.asked()) == (True, ["owner"])
    books.see(_object("owner"))
    assert (owner.is_virtual, books.asked()) == (False, [])
    assert [node.uid for node in owner.dependents] == ["child"]


async def test_different_owners_with_one_uid_are_distinguished() -> None:
    """The absence of one owner does not affect the other."""
    books = Bookkeeping()
    books.see(
        _object("one", _reference("a", uid="u")),
        _object("two", _reference("b", uid="u", kind="Secret")),
    )
    books.asked()
    books.graph.absent(Identity("v1", "ConfigMap", "n", "a", "u"))
    owner = books.graph.nodes.get("u")
    assert owner is not None
    assert owner.identity == Identity("v1", "Secret", "n", "b", "u")
    assert books.asked() == ["one"]
    books.graph.absent(owner.identity)
    assert books.asked() == ["two"]
    books.graph.gone(_object("one"))
    books.graph.gone(_object("two"))
    assert books.graph.nodes.get("u") is None


async def test_a_dependent_that_names_a_uid_twice_is_checked_for_each_name() -> None:
    """One of the names may be that of an owner that exists; or none of them."""
    books = Bookkeeping()
    books.see(_object("child", _reference("a", uid="u"), _reference("b", uid="u")))
    assert books.asked() == ["u", "child"]
    for name, other in (("a", "b"), ("b", "a")):
        books.graph.absent(Identity("v1", "ConfigMap", "n", name, "u"))
        owner = books.graph.nodes.get("u")
        assert owner is not None
        assert (books.asked(), owner.identity.name) == (["child"], other)
    books.graph.gone(_object("child"))
    assert books.graph.nodes == {}


async def test_objects_that_are_shown_with_another_kind_are_not_forgotten() -> None:
    """A custom resource may be defined again with the same name for another kind."""
    books = Bookkeeping()
    renamed = replace(CONFIG_MAPS, kind="ConfigTable")
    owner, secret = _object("owner"), _reference("secret", kind="Secret")
    child = _object("child", _reference("owner"), secret)
    books.see(owner, child)
    for each in (owner, child):
        books.graph.seen(renamed, None, each)
    list(books.graph.forget(CONFIG_MAPS))
    books.graph.forget_kind(CONFIG_MAPS)
    assert [(each.uid, each.identity.kind) for each in books.graph.nodes.values()] == [
        ("owner", "ConfigTable"),
        ("child", "ConfigTable"),
        ("secret", "Secret"),
    ]
    named = Identity("v1", "Secret", "n", "secret", "secret")
    assert books.graph.kinds_owned_by(named) == [("", "ConfigTable")]


async def test_a_dependent_in_another_namespace_is_reported_in_either_order() -> None:
    """With a virtual owner, and with one that a watch has shown."""
    late, early = Bookkeeping(), Bookkeeping()
    child = _object("child", _reference("owner"), namespace="m")
    late.see(child, _object("owner"))
    early.see(_object("owner"), child)
    assert late.invalid_namespaces == early.invalid_namespaces == [("child", "owner")]
    assert "child" in late.asked()
    assert early.asked() == ["child"]


async def test_a_kind_whose_objects_own_each_other_can_be_forgotten() -> None:
    """Also if the owner was never seen."""
    books = Bookkeeping()
    books.see(_object("child", _reference("parent")))
    assert list(books.graph.forget(CONFIG_MAPS)) == []
    assert books.graph.nodes == {}


async def test_no_state_is_kept_of_objects_that_are_gone() -> None:
    """Neither nodes nor dicts of dependents."""
    books = Bookkeeping()
    objects = [_object("a"), _object("b", _reference("a")), _object("c")]
    books.see(*objects)
    for each in reversed(objects):
        books.graph.gone(each)
    assert (
        len(books.graph.nodes),
        b"".join(draw(books.graph, (), ("json",))[1]),
    ) == (
        0,
        b'{"nodes":[],"edges":[]}',
    )


def test_changes_of_the_graph_are_counted_as_those_of_a_queue() -> None:
    """With the name of upstream's queue; none of them waits."""
    registry = CollectorRegistry()
    changes = GraphChanges(QueueCollectors(registry), SystemClock())
    taken: list[str] = []
    changes.take(taken.append, "a")
    changes.take(taken.append, "b")
    name = {"name": "garbage_collector_graph_changes"}
    shown = {
        metric: registry.get_sample_value(f"workqueue_{metric}", name)
        for metric in (
            "adds_total",
            "depth",
            "queue_duration_seconds_sum",
            "work_duration_seconds_count",
        )
    }
    assert (taken, shown) == (
        ["a", "b"],
        {
            "adds_total": 2,
            "depth": 0,
            "queue_duration_seconds_sum": 0,
            "work_duration_seconds_count": 2,
        },
    )
