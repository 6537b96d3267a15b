"""The graph, as a picture (dump.go): DOT for graphviz, or JSON."""

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from controller_manager.controllers.garbagecollector.graph import Graph, Node

Drawing = tuple[str, bytes]
"""A media type and a text of it."""

_DOT: Final = "text/vnd.graphviz"
_JSON: Final = "application/json"


def draw(graph: Graph, uids: Collection[str], output: Sequence[str]) -> Drawing:
    """Return the nodes that have owners or dependents, and who depends on whom.

    With `uids`, only what hangs together with these objects. `output` is
    ``json`` or ``dot``, the default.
    """
    nodes = _connected(graph, uids) if uids else graph.nodes()
    shown = [node for node in nodes if node.owners or node.dependents]
    if "json" in output:
        return _JSON, msgspec.json.encode(_as_json(shown))
    return _DOT, _as_dot(shown).encode()


def _connected(graph: Graph, uids: Collection[str]) -> list[Node]:
    found: dict[str, Node] = {}
    waiting = list(uids)
    while waiting:
        node = graph.get(waiting.pop())
        if node is None or node.uid in found:
            continue
        found[node.uid] = node
        waiting += [owner.uid for owner in node.owners]
        waiting += [dependent.uid for dependent in node.dependents]
    return list(found.values())


def _attributes(node: Node) -> dict[str, Any]:
    identity = node.identity
    return {
        "group": identity.group,
        "version": identity.version,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": identity.uid,
        "beingDeleted": node.is_being_deleted,
        "deletingDependents": node.is_deleting_dependents,
        "virtual": node.is_virtual,
    }


def _as_json(nodes: Sequence[Node]) -> dict[str, Any]:
    return {
        "nodes": [_attributes(node) for node in nodes],
        "edges": [
            {
                "dependent": node.uid,
                "owner": owner.uid,
                "blockOwnerDeletion": bool(owner.block_owner_deletion),
            }
            for node in nodes
            for owner in node.owners
        ],
    }


def _as_dot(nodes: Sequence[Node]) -> str:
    numbers = {node.uid: number for number, node in enumerate(nodes)}
    lines = ["strict digraph full {", "  // Node definitions."]
    for node in nodes:
        lines.append(f"  {numbers[node.uid]} [")
        attributes = {"label": _label(node), **_attributes(node)}
        lines += [f"    {name}={_quoted(each)}" for name, each in attributes.items()]
        lines.append("  ];")
    lines += ["", "  // Edge definitions."]
    lines += [
        f"  {numbers[node.uid]} -> {numbers[owner.uid]};"
        for node in nodes
        for owner in node.owners
        if owner.uid in numbers
    ]
    return "\n".join([*lines, "}", ""])


def _label(node: Node) -> str:
    identity = node.identity
    parts = (identity.kind, identity.version, identity.group)
    kind = ".".join(part for part in parts if part)
    states = {
        "beingDeleted": node.is_being_deleted,
        "deletingDependents": node.is_deleting_dependents,
        "virtual": node.is_virtual,
    }
    lines = [
        f"uid={identity.uid}",
        f"namespace={identity.namespace}",
        f"{kind}/{identity.name}",
        ",".join(name for name, holds in states.items() if holds),
    ]
    return "".join(f"{line}\n" for line in lines if line)


def _quoted(value: str | bool) -> str:  # noqa: FBT001 - whatever an attribute is
    text = str(value).lower() if isinstance(value, bool) else value
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
