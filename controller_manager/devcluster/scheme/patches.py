"""Patches: JSON patches, JSON merge patches, strategic merge patches.

Upstream: RFC 6902, RFC 7386, apimachinery/pkg/util/strategicpatch.
"""

import copy
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON

from .models import Field, Type, built_in

# JSON patches (RFC 6902) and JSON merge patches (RFC 7386).

_MOST_OPERATIONS: Final = 10_000
_MOST_COPIED: Final = 3 << 20
"""Bytes that the operations of a patch may copy together (AccumulatedCopySizeLimit)."""


class PatchError(ValueError):
    """A patch that cannot be applied."""


class TestFailedError(PatchError):
    """An operation ``test`` has found another value."""


class TooMuchError(PatchError):
    """A patch that asks for too much work."""


# RFC 7386


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` changed by a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


# RFC 6902


def json_patch(target: JSON, operations: Any) -> Any:
    """Return `target` changed by a JSON patch.

    Raises PatchError with the message of upstream's library (evanphx/json-patch), and
    TooMuchError.
    """
    if not isinstance(operations, list):
        raise PatchError("a JSON patch is a list of operations")
    if len(operations) > _MOST_OPERATIONS:
        raise TooMuchError(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, "
            f"got {len(operations)}"
        )
    document: Any = {"": copy.deepcopy(target)}
    copied = 0
    for operation in operations:
        copied += _apply(document, operation)
        if copied > _MOST_COPIED:
            raise TooMuchError(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{copied}, exceeding the limit {_MOST_COPIED}"
            )
    return document.get("")


def _apply(document: JSON, operation: Any) -> int:
    """Carry out an operation; return how many bytes it has copied."""
    try:
        name, path = operation["op"], operation["path"]
        match name:
            case "add":
                _add(document, path, copy.deepcopy(operation["value"]))
            case "remove":
                _remove(document, path)
            case "replace":
                _replace(document, path, copy.deepcopy(operation["value"]))
            case "move":
                _value(document, operation["from"], "move")
                _add(document, path, _remove(document, operation["from"]))
            case "copy":
                encoded = msgspec.json.encode(
                    _value(document, operation["from"], "copy")
                )
                _add(document, path, msgspec.json.decode(encoded))
                return len(encoded)
            case "test":
                parent, token = _parent(document, path, "test")
                found = _get(parent, token) if _has(parent, token) else None
                if found != operation.get("value"):
                    raise TestFailedError(f"testing value {path} failed: test failed")
            case _:
                raise PatchError(f"Unexpected kind: {name}")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, PatchError):
            raise
        raise PatchError(f"operation cannot be applied: {operation}") from error
    return 0


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise PatchError(f"not a JSON pointer: {path!r}")
    return [""] + [
        token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]
    ]


def _missing(operation: str, path: str) -> PatchError:
    return PatchError(
        f'{operation} operation does not apply: doc is missing path: "{path}": '
        "missing value"
    )


def _parent(document: JSON, path: str, operation: str) -> tuple[Any, str]:
    """Return the parent of a path, and the last part; raises PatchError."""
    tokens = _tokens(path)
    parent: Any = document
    for token in tokens[:-1]:
        try:
            parent = parent[int(token)] if isinstance(parent, list) else parent[token]
        except (LookupError, TypeError, ValueError):
            raise _missing(operation, path) from None
    if not isinstance(parent, list | dict):
        raise _missing(operation, path)
    return parent, tokens[-1]


def _has(parent: Any, token: str) -> bool:
    """Tell whether a list or an object has a part; raises PatchError."""
    if isinstance(parent, dict):
        return token in parent
    return -len(parent) <= _index(token) < len(parent)


def _index(token: str) -> int:
    try:
        return int(token)
    except ValueError:
        raise PatchError(f'strconv.Atoi: parsing "{token}": invalid syntax') from None


def _get(parent: Any, token: str) -> Any:
    return parent[int(token)] if isinstance(parent, list) else parent[token]


def _add(document: JSON, path: str, value: Any) -> None:
    parent, token = _parent(document, path, "add")
    if not isinstance(parent, list):
        parent[token] = value
    elif token == "-":  # noqa: S105 - a step of a path
        parent.append(value)
    else:
        index = _index(token)
        if not -len(parent) - 1 <= index <= len(parent):
            raise PatchError(
                f"error in add for path: '{path}': Unable to access invalid index: "
                f"{index}: invalid index referenced"
            )
        parent.insert(index if index >= 0 else len(parent) + 1 + index, value)


def _remove(document: JSON, path: str) -> Any:
    parent, token = _parent(document, path, "remove")
    if _has(parent, token):
        return parent.pop(int(token) if isinstance(parent, list) else token)
    prefix = f"error in remove for path: '{path}': Unable to "
    if isinstance(parent, list):
        msg = f"{prefix}access invalid index: {token}: invalid index referenced"
        raise PatchError(msg)
    raise PatchError(f"{prefix}remove nonexistent key: {token}: missing value")


def _replace(document: JSON, path: str, value: Any) -> None:
    parent, token = _parent(document, path, "replace")
    if not _has(parent, token):
        raise PatchError(
            f"replace operation does not apply: doc is missing key: {path}: missing "
            "value"
        )
    parent[int(token) if isinstance(parent, list) else token] = value


def _value(document: JSON, path: str, operation: str) -> Any:
    """Return the value at a path; raises PatchError."""
    parent, token = _parent(document, path, operation)
    if not _has(parent, token):
        raise _missing(operation, path)
    return _get(parent, token)


# Strategic merge patches: lists are merged by a key.

_UNKNOWN: Final = Field()
"""A field without a type: a map is merged, and a list is replaced."""


def strategic_merge_patch(target: JSON, patch: Any, type_name: str) -> JSON:
    """Return `target`, an object of a model, changed by a strategic merge patch.

    Raises PatchError.
    """
    if not isinstance(patch, dict):
        raise PatchError("a strategic merge patch is an object")
    try:
        merged = _merge_object(target, patch, Type(ref=type_name))
    except (AttributeError, TypeError) as error:
        raise PatchError(f"the patch does not fit the object: {error}") from error
    return merged if merged is not None else {}


def _field(of: Type, name: str) -> Field:
    """Return a field of a model; the values of a map have no fields with names."""
    fields = built_in().model(of.ref).fields if of.ref else {}
    return fields.get(name, _UNKNOWN)


def _merge_object(target: JSON, patch: JSON, of: Type) -> JSON | None:
    """Merge one object; `None` means that the patch deletes it."""
    directive = patch.get("$patch")
    if directive == "delete":
        return None
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    if directive not in (None, "merge"):
        raise PatchError(f"unknown patch type: {directive}")
    result = dict(target)
    if (retained := patch.get("$retainKeys")) is not None:
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [each for each in result.get(name, []) if each not in value]
        elif not key.startswith("$"):
            order = patch.get(f"$setElementOrder/{key}")
            _merge_field(result, key, value, _field(of, key), order)
    for key, order in patch.items():
        name = key.partition("/")[2]
        if key.startswith("$setElementOrder/") and name not in patch:
            _merge_field(result, name, [], _field(of, name), order)
    return result


def _merge_field(result: JSON, key: str, value: Any, field: Field, order: Any) -> None:
    current = result.get(key)
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        if field.patch_strategy == "replace":
            value = {"$patch": "replace", **value}
        known = current if isinstance(current, dict) else {}
        merged = _merge_object(known, value, field)
        if merged is None:
            result.pop(key, None)
        else:
            result[key] = merged
    elif isinstance(value, list):
        existing = current if isinstance(current, list) else []
        result[key] = _merge_list(existing, value, key, field, order)
    else:
        result[key] = value


def _merge_list(
    current: list[Any], patch: list[Any], name: str, field: Field, order: Any
) -> list[Any]:
    key, items = field.patch_merge_key, field.items
    if items is None or not field.patch_strategy:
        return [_without_directives(each) for each in patch]
    if not key:
        added = [each for each in patch if each not in current]
        return _in_order(current, added, current, order, lambda each: each)
    if any(each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if "$patch" not in each]
    if order is not None and not all(isinstance(each, dict) for each in order):
        raise PatchError(f"$setElementOrder/{name} is not a list of objects")
    left = list(current)
    merged = list(_merge_by_key(left, patch, items, key))
    return _in_order(left, merged, current, order, lambda each: each.get(key))


def _merge_by_key(
    left: list[Any], patch: list[Any], of: Type, key: str
) -> Iterator[Any]:
    """Merge items by key, and remove the merged ones from `left`.

    If several have one key (TCP and UDP), the first counts.
    """
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise PatchError(f"map: {each} does not contain declared merge key: {key}")
        known = next((item for item in left if item.get(key) == each[key]), None)
        merged = _merge_object(known or {}, each, of)
        if known is not None:
            left.remove(known)
        if merged is not None:
            yield merged


def _in_order(
    kept: list[Any],
    patched: list[Any],
    current: list[Any],
    order: list[Any] | None,
    identity: Callable[[Any], Any],
) -> list[Any]:
    """Merge two lists; items that the server knew keep the order of `current`.

    Otherwise the items of the patch come first, as in apimachinery's
    strategicpatch (mergeSortedSlice). With an `order`, the items that it names count
    as those of the patch.
    """
    left, right = deque(kept), deque(patched)
    if order is not None:
        wanted = [identity(each) for each in order]
        named = [each for each in (*patched, *kept) if identity(each) in wanted]
        right = deque(sorted(named, key=lambda each: wanted.index(identity(each))))
        left = deque(e for e in (*kept, *patched) if identity(e) not in wanted)
    known = [identity(each) for each in current]
    result: list[Any] = []
    while left and right:
        one, other = identity(left[0]), identity(right[0])
        both = one in known and other in known
        if both and known.index(one) < known.index(other):
            result.append(left.popleft())
        else:
            result.append(right.popleft())
    return [*result, *left, *right]


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_directives(inner)
            for key, inner in value.items()
            if not key.startswith("$")
        }
    return value
