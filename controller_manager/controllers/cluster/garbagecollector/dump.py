"""Draws the graph (dump.go): as DOT for graphviz, or as JSON.

A drawing of 200,000 nodes takes seconds and has 60 MB. So it is made piece by piece,
and other tasks run between the pieces. A node and its owners are read at the same
moment; a node that changes while the graph is drawn may be shown as it was before or
after the change.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from controller_manager.api.meta import OwnerReference

from .graph import Graph, Node

Drawing = tuple[str, Generator[bytes, None, None]]
"""A media type and the drawing in pieces."""

_STEP: Final = 200
"""The number of objects that are visited for one piece: up to 4 ms."""

_STATES: Final = ("beingDeleted", "deletingDependents", "virtual")

_Drawn = tuple[list[str], list[tuple[OwnerReference, ...]]]
"""The uids of the nodes that have been drawn, and the owners that each had then.

These are two lists, not a list of pairs: 200,000 new tuples would start a garbage
collection of 20 ms in the middle of a piece.
"""


def draw(graph: Graph, uids: Collection[str], output: Sequence[str]) -> Drawing:
    """Return a drawing of the nodes that have owners or dependents, and of the edges.

    With `uids`, only nodes that are connected with these objects are drawn. `output`
    is ``json`` or ``dot``, the default. The graph may change between two pieces; a
    piece may be empty.
    """
    nodes = _connected(graph, uids) if uids else iter(list(graph.nodes.values()))
    shown = _steps(nodes)
    if "json" in output:
        return "application/json", _as_json(shown)
    return "text/vnd.graphviz", _as_dot(shown)


def _connected(graph: Graph, uids: Collection[str]) -> Iterator[Node | None]:
    """Yield the connected nodes; `None` for a visit that found no new node."""
    found: set[str] = set()
    waiting = [graph.nodes.get(uid) for uid in uids]
    while waiting:
        node = waiting.pop()
        if node is None or node.uid in found:
            yield None
            continue
        found.add(node.uid)
        yield node
        waiting += [graph.nodes.get(owner.uid) for owner in node.owners]
        waiting += node.dependents


def _steps(nodes: Iterator[Node | None]) -> Iterator[list[Node]]:
    """Yield lists of the nodes to show, for `_STEP` visits each."""
    while step := list(islice(nodes, _STEP)):
        yield [node for node in step if node and (node.owners or node.dependents)]


def _attributes(node: Node) -> dict[str, Any]:
    identity = node.identity
    names = ("group", "version", "kind", "namespace", "name", "uid")
    return {
        **{name: getattr(identity, name) for name in names},
        "beingDeleted": node.is_being_deleted,
        "deletingDependents": node.is_deleting_dependents,
        "virtual": node.is_virtual,
    }


def _as_json(steps: Iterable[list[Node]]) -> Generator[bytes, None, None]:
    drawn: _Drawn = ([], [])
    yield b'{"nodes":['
    yield from _separated(
        [_attributes(node) for node in _noted(drawn, nodes)] for nodes in steps
    )
    yield b'],"edges":['
    yield from _separated(
        [
            {
                "dependent": uid,
                "owner": owner.uid,
                "blockOwnerDeletion": bool(owner.block_owner_deletion),
            }
            for uid, owner in step
        ]
        for step in _edges(drawn)
    )
    yield b"]}"


def _noted(drawn: _Drawn, nodes: list[Node]) -> list[Node]:
    uids, owners = drawn
    uids += [node.uid for node in nodes]
    owners += [node.owners for node in nodes]
    return nodes


def _edges(drawn: _Drawn) -> Iterator[list[tuple[str, OwnerReference]]]:
    """Yield lists of (dependent's uid, owner reference), for `_STEP` nodes each."""
    uids, owners = drawn
    for start in range(0, len(uids), _STEP):
        step = slice(start, start + _STEP)
        pairs = zip(uids[step], owners[step], strict=True)
        yield [(uid, owner) for uid, each in pairs for owner in each]


def _separated(steps: Iterable[list[dict[str, Any]]]) -> Iterator[bytes]:
    separator = b""
    for step in steps:
        elements = msgspec.json.encode(step)[1:-1]
        yield separator + elements if elements else b""
        separator = b"," if elements else separator


def _as_dot(steps: Iterable[list[Node]]) -> Generator[bytes, None, None]:
    drawn: _Drawn = ([], [])
    numbers: dict[str, int] = {}
    yield b"strict digraph full {\n  // Node definitions.\n"
    for nodes in steps:
        text = ""
        for node in _noted(drawn, nodes):
            number = numbers[node.uid] = len(numbers)
            attributes = _attributes(node)
            shown = {"label": _label(attributes), **attributes}
            lines = (f"    {name}={_quoted(each)}\n" for name, each in shown.items())
            text += f"  {number} [\n{''.join(lines)}  ];\n"
        yield text.encode()
    yield b"\n  // Edge definitions.\n"
    for step in _edges(drawn):
        lines = (
            f"  {numbers[uid]} -> {numbers[owner.uid]};\n"
            for uid, owner in step
            if owner.uid in numbers
        )
        yield "".join(lines).encode()
    yield b"}\n"


def _label(attributes: dict[str, Any]) -> str:
    parts = (attributes[each] for each in ("kind", "version", "group"))
    kind = ".".join(part for part in parts if part)
    lines = [
        f"uid={attributes['uid']}",
        f"namespace={attributes['namespace']}",
        f"{kind}/{attributes['name']}",
        ",".join(each for each in _STATES if attributes[each]),
    ]
    return "".join(f"{line}\n" for line in lines if line)


def _quoted(value: str | bool) -> str:  # noqa: FBT001 - the value of an attribute
    text = str(value).lower() if isinstance(value, bool) else value
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
