"""JSON patches (RFC 6902) and JSON merge patches (RFC 7386)."""

import copy
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON

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
        msg = "a JSON patch is a list of operations"
        raise PatchError(msg)
    if len(operations) > _MOST_OPERATIONS:
        msg = (
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, "
            f"got {len(operations)}"
        )
        raise TooMuchError(msg)
    document: Any = {"": copy.deepcopy(target)}
    copied = 0
    for operation in operations:
        copied += _apply(document, operation)
        if copied > _MOST_COPIED:
            msg = (
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{copied}, exceeding the limit {_MOST_COPIED}"
            )
            raise TooMuchError(msg)
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
                _move(document, operation["from"], path)
            case "copy":
                return _copy(document, operation["from"], path)
            case "test":
                _test(document, path, operation.get("value"))
            case _:
                msg = f"Unexpected kind: {name}"
                raise PatchError(msg)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, PatchError):
            raise
        msg = f"operation cannot be applied: {operation}"
        raise PatchError(msg) from error
    return 0


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        msg = f"not a JSON pointer: {path!r}"
        raise PatchError(msg)
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
        msg = f'strconv.Atoi: parsing "{token}": invalid syntax'
        raise PatchError(msg) from None


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
            msg = (
                f"error in add for path: '{path}': Unable to access invalid index: "
                f"{index}: invalid index referenced"
            )
            raise PatchError(msg)
        parent.insert(index if index >= 0 else len(parent) + 1 + index, value)


def _remove(document: JSON, path: str) -> Any:
    parent, token = _parent(document, path, "remove")
    if _has(parent, token):
        return parent.pop(int(token) if isinstance(parent, list) else token)
    prefix = f"error in remove for path: '{path}': Unable to "
    if isinstance(parent, list):
        msg = f"{prefix}access invalid index: {token}: invalid index referenced"
        raise PatchError(msg)
    msg = f"{prefix}remove nonexistent key: {token}: missing value"
    raise PatchError(msg)


def _replace(document: JSON, path: str, value: Any) -> None:
    parent, token = _parent(document, path, "replace")
    if not _has(parent, token):
        msg = (
            f"replace operation does not apply: doc is missing key: {path}: missing "
            "value"
        )
        raise PatchError(msg)
    parent[int(token) if isinstance(parent, list) else token] = value


def _move(document: JSON, source: str, path: str) -> None:
    parent, token = _parent(document, source, "move")
    if not _has(parent, token):
        raise _missing("move", source)
    _add(document, path, _remove(document, source))


def _copy(document: JSON, source: str, path: str) -> int:
    parent, token = _parent(document, source, "copy")
    if not _has(parent, token):
        raise _missing("copy", source)
    encoded = msgspec.json.encode(_get(parent, token))
    _add(document, path, msgspec.json.decode(encoded))
    return len(encoded)


def _test(document: JSON, path: str, value: Any) -> None:
    parent, token = _parent(document, path, "test")
    found = _get(parent, token) if _has(parent, token) else None
    if found != value:
        msg = f"testing value {path} failed: test failed"
        raise TestFailedError(msg)
