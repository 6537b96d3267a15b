"""Strategic merge patches: lists are merged by a key."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.apimachinery.json_patch import PatchError

MERGE_KEYS: Final[Mapping[str, str]] = {
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "matchConditions": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "hostIPs": "ip",
    "resourceClaims": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "variables": "name",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""The patchMergeKey of lists of objects that are merged, by field name."""

_PORTS: Final = {"containers": "containerPort", "initContainers": "containerPort"}

MERGED_PRIMITIVES: Final = frozenset(("finalizers",))
"""Lists of scalars that are merged as sets."""


def merge_key(field: str, parent: str) -> str:
    """Return the key that merges a list of objects, empty for a list that is replaced.

    `parent` is the list or object with the field: the key of a container's ports is
    containerPort, that of a service's ports is port.
    """
    if field == "ports":
        return _PORTS.get(parent, "port" if parent == "spec" else "")
    return MERGE_KEYS.get(field, "")


def strategic_merge_patch(target: JSON, patch: Any) -> JSON:
    """Return `target` changed by a strategic merge patch; raises PatchError."""
    if not isinstance(patch, dict):
        msg = "a strategic merge patch is an object"
        raise PatchError(msg)
    try:
        merged = _merge_object(target, patch, "")
    except (AttributeError, TypeError) as error:
        msg = f"the patch does not fit the object: {error}"
        raise PatchError(msg) from error
    return merged if merged is not None else {}


def _merge_object(target: JSON, patch: JSON, field: str) -> JSON | None:
    """Merge one object; `None` means that the patch deletes it."""
    directive = patch.get("$patch")
    if directive == "delete":
        return None
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    if directive not in (None, "merge"):
        msg = f"unknown patch type: {directive}"
        raise PatchError(msg)
    result = dict(target)
    if (retained := patch.get("$retainKeys")) is not None:
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [each for each in result.get(name, []) if each not in value]
        elif not key.startswith("$"):
            order = patch.get(f"$setElementOrder/{key}")
            _merge_field(result, key, value, field, order)
    for key, order in patch.items():
        name = key.partition("/")[2]
        if key.startswith("$setElementOrder/") and name not in patch:
            _merge_field(result, name, [], field, order)
    return result


def _merge_field(
    result: JSON,
    key: str,
    value: Any,
    parent: str,
    order: Any,
) -> None:
    current = result.get(key)
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        merged = _merge_object(current if isinstance(current, dict) else {}, value, key)
        if merged is None:
            result.pop(key, None)
        else:
            result[key] = merged
    elif isinstance(value, list):
        existing = current if isinstance(current, list) else []
        result[key] = _merge_list(existing, value, key, parent, order)
    else:
        result[key] = value


def _merge_list(
    current: list[Any],
    patch: list[Any],
    field: str,
    parent: str,
    order: Any,
) -> list[Any]:
    if field in MERGED_PRIMITIVES:
        added = [each for each in patch if each not in current]
        return _in_order(current, added, order, lambda each: each)
    key = merge_key(field, parent)
    if not key:
        return [_without_directives(each) for each in patch]
    if any(each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if "$patch" not in each]
    return _merge_by_key(current, patch, field, key, order)


def _merge_by_key(
    current: list[Any], patch: list[Any], field: str, key: str, order: Any
) -> list[Any]:
    """Merge items by key; if several have one key (TCP and UDP), the first counts."""
    items = list(current)
    patched: list[Any] = []
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            msg = f"map: {each} does not contain declared merge key: {key}"
            raise PatchError(msg)
        known = next((item for item in items if item.get(key) == each[key]), None)
        merged = _merge_object(known or {}, each, field)
        if known is not None:
            items.remove(known)
        if merged is not None:
            patched.append(merged)
    server_order = [each.get(key) for each in current]
    if order is not None:
        if not all(isinstance(each, dict) for each in order):
            msg = f"$setElementOrder/{field} is not a list of objects"
            raise PatchError(msg)
        wanted = [each.get(key) for each in order]
        return _ordered_by(items, patched, server_order, wanted, key)
    return _interleave(items, patched, server_order, lambda each: each.get(key))


def _ordered_by(
    server_only: list[Any],
    patched: list[Any],
    server_order: list[Any],
    wanted: list[Any],
    key: str,
) -> list[Any]:
    """Put the patch's items in the patch's order, other items in the server's order."""
    named = [each for each in (*patched, *server_only) if each.get(key) in wanted]
    named.sort(key=lambda each: wanted.index(each.get(key)))
    rest = [each for each in (*server_only, *patched) if each.get(key) not in wanted]
    return _interleave(rest, named, server_order, lambda each: each.get(key))


def _in_order(
    current: list[Any],
    added: list[Any],
    order: Any,
    identity: Callable[[Any], Any],
) -> list[Any]:
    if order is None:
        return [*added, *current] if added else current
    every = [*current, *added]
    named = [each for each in order if each in every]
    rest = [each for each in every if each not in order]
    return _interleave(rest, named, current, identity)


def _interleave(
    server_only: list[Any],
    patched: list[Any],
    server_order: list[Any],
    identity: Callable[[Any], Any],
) -> list[Any]:
    """Merge two lists; items that the server knew keep their order.

    Otherwise the items of the patch come first, as in apimachinery's
    strategicpatch (mergeSortedSlice).
    """
    left, right = list(server_only), list(patched)
    result: list[Any] = []
    while left and right:
        one, other = identity(left[0]), identity(right[0])
        both = one in server_order and other in server_order
        if both and server_order.index(one) < server_order.index(other):
            result.append(left.pop(0))
        else:
            result.append(right.pop(0))
    return [*result, *left, *right]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_directives(inner)
            for key, inner in value.items()
            if not key.startswith("$")
        }
    return value
