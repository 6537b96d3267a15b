"""JSON patches (RFC 6902) and JSON merge patches (RFC 7386)."""

import copy
from typing import Any

JSON = dict[str, Any]


class PatchError(ValueError):
    """A patch that cannot be applied."""


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
    """Return `target` changed by a JSON patch; raises PatchError."""
    if not isinstance(operations, list):
        msg = "a JSON patch is a list of operations"
        raise PatchError(msg)
    document: Any = {"": copy.deepcopy(target)}
    for operation in operations:
        _apply(document, operation)
    return document[""]


def _apply(document: JSON, operation: Any) -> None:
    try:
        name, path = operation["op"], operation["path"]
        match name:
            case "add":
                _add(document, path, copy.deepcopy(operation["value"]))
            case "remove":
                _remove(document, path)
            case "replace":
                _remove(document, path)
                _add(document, path, copy.deepcopy(operation["value"]))
            case "move":
                _add(document, path, _remove(document, operation["from"]))
            case "copy":
                _add(document, path, copy.deepcopy(_get(document, operation["from"])))
            case "test":
                if _get(document, path) != operation["value"]:
                    msg = f"testing value {path} failed"
                    raise PatchError(msg)
            case _:
                msg = f"unexpected kind: {name}"
                raise PatchError(msg)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, PatchError):
            raise
        msg = f"operation cannot be applied: {operation}"
        raise PatchError(msg) from error


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        msg = f"not a JSON pointer: {path!r}"
        raise PatchError(msg)
    return [""] + [
        token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]
    ]


def _parent(document: JSON, path: str) -> tuple[Any, str]:
    tokens = _tokens(path)
    parent: Any = document
    for token in tokens[:-1]:
        parent = parent[int(token)] if isinstance(parent, list) else parent[token]
    return parent, tokens[-1]


def _get(document: JSON, path: str) -> Any:
    parent, token = _parent(document, path)
    return parent[int(token)] if isinstance(parent, list) else parent[token]


def _add(document: JSON, path: str, value: Any) -> None:
    parent, token = _parent(document, path)
    if not isinstance(parent, list):
        parent[token] = value
    elif token == "-":  # noqa: S105 - a step of a path
        parent.append(value)
    else:
        index = int(token)
        if not 0 <= index <= len(parent):
            raise IndexError(token)
        parent.insert(index, value)


def _remove(document: JSON, path: str) -> Any:
    parent, token = _parent(document, path)
    if isinstance(parent, list):
        return parent.pop(int(token))
    return parent.pop(token)
