"""The drawing of a collector's graph, piece by piece."""

import re
from collections.abc import Sequence
from typing import Any
from unittest import mock

import msgspec
import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.meta import OwnerReference, PartialMetadata, PartialObject
from controller_manager.controllers.cluster.garbagecollector import dump
from controller_manager.controllers.cluster.garbagecollector.dump import draw
from controller_manager.controllers.cluster.garbagecollector.graph import Graph

STEP = 200


def config_map(name: str, *owners: str) -> PartialObject:
    references = tuple(
        OwnerReference(api_version="v1", kind="ConfigMap", name=each, uid=each)
        for each in owners
    )
    return PartialObject(
        metadata=PartialMetadata(
            name=name, namespace="n", uid=name, owner_references=references or None
        )
    )


def graph_of(owners: int, dependents: int, lone: int = 0) -> Graph:
    """Return a graph in which each dependent has one of the owners."""
    graph = Graph(lambda _: None, lambda _: None, lambda _, __: None)
    for number in range(owners):
        graph.seen(CONFIG_MAPS, None, config_map(f"owner-{number}"))
    for number in range(dependents):
        child = config_map(f"child-{number}", f"owner-{number % owners}")
        graph.seen(CONFIG_MAPS, None, child)
    for number in range(lone):
        graph.seen(CONFIG_MAPS, None, config_map(f"lone-{number}"))
    return graph


def drawn(graph: Graph, output: str, uids: Sequence[str] = ()) -> tuple[list[int], str]:
    """Return the numbers of nodes and edges in each piece, and the whole drawing."""
    looks: list[int] = []
    described: list[object] = []
    attributes = dump._attributes

    def counted(node: Any) -> dict[str, Any]:
        described.append(node)
        return attributes(node)

    pieces = []
    with mock.patch.object(dump, "_attributes", counted):
        for piece in draw(graph, uids, (output,))[1]:
            edges = len(re.findall(rb'"blockOwner| -> ', piece))
            looks.append(len(described) + edges)
            described.clear()
            pieces.append(piece)
    return looks, b"".join(pieces).decode()


@pytest.mark.parametrize("output", ["json", "dot"])
@pytest.mark.slow
def test_200_000_nodes_are_drawn_200_at_a_time(output: str) -> None:
    """Other tasks run after each piece; all nodes and edges are drawn."""
    looks, text = drawn(graph_of(1000, 199_000), output)
    assert max(looks) == STEP
    assert sum(looks) == 200_000 + 199_000
    if output == "json":
        picture = msgspec.json.decode(text)
        sizes = {name: len(each) for name, each in picture.items()}
        assert sizes == {"nodes": 200_000, "edges": 199_000}


@pytest.mark.slow
def test_nodes_that_are_not_shown_count_as_well() -> None:
    """A graph of objects without edges has an empty drawing, in a thousand pieces."""
    looks, text = drawn(graph_of(0, 0, 200_000), "json")
    assert (text, sum(looks)) == ('{"nodes":[],"edges":[]}', 0)
    assert len(looks) >= 200_000 / STEP


def test_connected_nodes_are_searched_200_at_a_time() -> None:
    """From one of many dependents to all others."""
    looks, text = drawn(graph_of(1, 10_000, 5), "json", ["child-7"])
    assert (max(looks), sum(looks)) == (STEP, 10_001 + 10_000)
    assert {each["name"] for each in msgspec.json.decode(text)["nodes"]} == {
        "owner-0",
        *(f"child-{number}" for number in range(10_000)),
    }


@pytest.mark.parametrize("output", ["json", "dot"])
@pytest.mark.parametrize("uids", [(), ("owner-0",)])
def test_a_graph_may_change_while_it_is_drawn(output: str, uids: Sequence[str]) -> None:
    """The drawing is completed, and can be parsed."""
    graph = graph_of(2, 2_000)
    picture = b""
    for number, piece in enumerate(draw(graph, uids, (output,))[1]):
        picture += piece
        new = config_map(f"new-{number}", "owner-0", f"other-{number}")
        graph.seen(CONFIG_MAPS, None, new)
        for each in range(number * 150, number * 150 + 150):
            graph.gone(config_map(f"child-{each}"))
        if number == 3:
            graph.gone(config_map("owner-0"))
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
    """Nodes with their attributes, and edges."""
    graph = graph_of(1, 1, 1)
    _, dot = drawn(graph, "dot")
    _, json = drawn(graph, "json")
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
