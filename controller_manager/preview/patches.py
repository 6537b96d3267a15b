"""Patches: what the API server makes of an object and a patch.

The strategic merge knows the fields of `fields.KEYS`, and the directives that
controllers send: ``$patch`` and ``$deleteFromPrimitiveList``.
"""

from typing import Any, Final

import msgspec

from controller_manager.client.rest.client import PatchType

from .fields import JSON, KEYS, SETS

APPLY: Final = "application/apply-patch+yaml"

_DELETE_FROM: Final = "$deleteFromPrimitiveList/"


class InvalidPatch(ValueError):
    """A patch that cannot be applied; the message says why."""


def patched(obj: JSON, body: bytes, media_type: str) -> JSON:
    """Return the object after a patch; raises InvalidPatch."""
    try:
        patch = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        msg = f"the patch is no JSON: {error}"
        raise InvalidPatch(msg) from error
    if media_type == PatchType.JSON:
        return _object(_json_patched(obj, patch))
    if not isinstance(patch, dict):
        msg = "the patch is no object"
        raise InvalidPatch(msg)
    if media_type == PatchType.MERGE:
        return _object(_merged(obj, patch))
    return _object(_strategic(obj, patch))


def _object(value: Any) -> JSON:  # noqa: ANN401 - JSON
    """Return a value that must be an object; raises InvalidPatch."""
    if not isinstance(value, dict):
        msg = "the patch makes no object"
        raise InvalidPatch(msg)
    return value


def _merged(obj: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Return `obj` after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    changed = dict(obj) if isinstance(obj, dict) else {}
    for name, value in patch.items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = _merged(changed.get(name), value)
    return changed


def _strategic(obj: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Return `obj` after a strategic merge patch."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    changed = dict(obj) if isinstance(obj, dict) else {}
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            field = name.removeprefix(_DELETE_FROM)
            left = [each for each in changed.get(field) or () if each not in value]
            changed[field] = left
        elif name.startswith("$"):
            continue
        elif value is None:
            changed.pop(name, None)
        elif isinstance(value, list):
            changed[name] = _strategic_list(name, changed.get(name) or [], value)
        else:
            changed[name] = _strategic(changed.get(name), value)
    return changed


def _strategic_list(name: str, items: list[Any], patch: list[Any]) -> list[Any]:
    if name in SETS:
        return [*items, *(each for each in patch if each not in items)]
    key = KEYS.get(name, "")
    if not key or not all(isinstance(each, dict) for each in patch):
        return patch
    if any(each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if "$patch" not in each]
    changed = list(items)
    for each in patch:
        where = [
            at for at, item in enumerate(changed) if item.get(key) == each.get(key)
        ]
        if each.get("$patch") == "delete":
            changed = [item for at, item in enumerate(changed) if at not in where]
        elif where:
            changed[where[0]] = _strategic(changed[where[0]], each)
        else:
            changed.append(_strategic({}, each))
    return changed


def _json_patched(obj: Any, operations: Any) -> Any:  # noqa: ANN401 - JSON
    """Return `obj` after the operations add, replace, remove and test (RFC 6902)."""
    if not isinstance(operations, list):
        msg = "the JSON patch is no list of operations"
        raise InvalidPatch(msg)
    for each in operations:
        steps = [
            step.replace("~1", "/").replace("~0", "~")
            for step in str(each.get("path", "")).split("/")[1:]
        ]
        try:
            obj = _operated(obj, steps, each.get("op"), each.get("value"))
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            msg = f"operation {each.get('op')} at {each.get('path')}: {error}"
            raise InvalidPatch(msg) from error
    return obj


def _operated(obj: Any, steps: list[str], operation: Any, value: Any) -> Any:  # noqa: ANN401 - JSON
    if not steps:
        if operation == "test" and obj != value:
            msg = f"the value is {obj!r}"
            raise ValueError(msg)
        return obj if operation == "test" else value
    step, rest = steps[0], steps[1:]
    changed = list(obj) if isinstance(obj, list) else dict(obj)
    at: Any = step
    if isinstance(changed, list):
        at = len(changed) if step == "-" else int(step)
    if not rest and operation == "remove":
        del changed[at]
    elif not rest and operation == "add" and isinstance(changed, list):
        changed.insert(at, value)
    elif not rest and operation == "add":
        changed[at] = value
    else:
        changed[at] = _operated(changed[at], rest, operation, value)
    return changed
