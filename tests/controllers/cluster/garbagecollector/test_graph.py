"""The graph of owners and dependents alone."""

import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec
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
    books = Bookkeeping()
    books.see(_object("child", _reference("owner")))
    owner = books.graph.nodes.get("owner")
    assert owner is not None
    assert (owner.is_virtual, books.asked()) == (True, ["owner"])
    books.see(_object("owner"))
    assert (owner.is_virtual, books.asked()) == (False, [])
    assert [node.uid for node in owner.dependents] == ["child"]


async def test_different_owners_with_one_uid_are_distinguished() -> None:
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


def graph_of(owners: int, dependents: int, lone: int = 0) -> Graph:
    graph = Graph(lambda _: None, lambda _: None, lambda _, __: None)
    names = [f"owner-{number}" for number in range(owners)]
    objects = [_object(each) for each in names]
    for number in range(dependents):
        owner = _reference(names[number % owners])
        objects.append(_object(f"child-{number}", owner))
    objects += [_object(f"lone-{number}") for number in range(lone)]
    for each in objects:
        graph.seen(CONFIG_MAPS, None, each)
    return graph


@pytest.mark.parametrize("output", ["json", "dot"])
@pytest.mark.parametrize("uids", [(), ("owner-0",)])
def test_a_graph_may_change_while_it_is_drawn(output: str, uids: Sequence[str]) -> None:
    graph = graph_of(2, 2_000)
    picture = b""
    for number, piece in enumerate(draw(graph, uids, (output,))[1]):
        picture += piece
        owners = _reference("owner-0"), _reference(f"other-{number}")
        graph.seen(CONFIG_MAPS, None, _object(f"new-{number}", *owners))
        for each in range(number * 150, number * 150 + 150):
            graph.gone(_object(f"child-{each}"))
        if number == 3:
            graph.gone(_object("owner-0"))
    if output == "json":
        nodes = msgspec.json.decode(picture)["nodes"]
        names = [each["uid"] for each in nodes]
        assert (len(names), set(names) >= {"owner-0"}) == (len(set(names)), True)
    else:
        text = picture.decode()
        numbered = set(re.findall(r"^  (\d+) \[$", text, re.MULTILINE))
        edges = re.findall(r"^  (\d+) -> (\d+);$", text, re.MULTILINE)
        assert {end for edge in edges for end in edge} <= numbered
        assert text.endswith("}\n")


def test_both_formats_show_the_same() -> None:
    graph = graph_of(1, 1, 1)
    dot, json = (
        b"".join(draw(graph, (), (output,))[1]).decode() for output in ("dot", "json")
    )
    common = {
        "group": "",
        "version": "v1",
        "kind": "ConfigMap",
        "namespace": "n",
        "beingDeleted": False,
        "deletingDependents": False,
        "virtual": False,
    }
    assert msgspec.json.decode(json) == {
        "nodes": [
            {**common, "name": "owner-0", "uid": "owner-0"},
            {**common, "name": "child-0", "uid": "child-0"},
        ],
        "edges": [
            {"dependent": "child-0", "owner": "owner-0", "blockOwnerDeletion": False}
        ],
    }
    assert dot == (
        "strict digraph full {\n  // Node definitions.\n"
        + "".join(
            f"  {number} [\n"
            f'    label="uid={name}\\nnamespace=n\\nConfigMap.v1/{name}\\n"\n'
            '    group=""\n    version="v1"\n    kind="ConfigMap"\n'
            f'    namespace="n"\n    name="{name}"\n    uid="{name}"\n'
            '    beingDeleted="false"\n    deletingDependents="false"\n'
            '    virtual="false"\n  ];\n'
            for number, name in enumerate(("owner-0", "child-0"))
        )
        + "\n  // Edge definitions.\n  1 -> 0;\n}\n"
    )
