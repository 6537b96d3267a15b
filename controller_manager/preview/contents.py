"""The contents of objects: which fields writers decide, and which the server."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import object_at, objects_at

from .fields import JSON, REMOVED, Path, are_same, differences, is_empty, value_at
from .target import Collection, Target

_OF_SERVER: Final = frozenset(
    (
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    )
)
"""Fields of metadata that no writer sets in an object that exists."""

_HEAD: Final = frozenset(("apiVersion", "kind"))

_UID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_OPAQUE: Final = frozenset(
    (
        ("certificatesigningrequests", ("status", "certificate")),
        ("secrets", ("data",)),
    )
)
"""Fields whose values two managers cannot make alike: keys and signatures."""


def is_opaque(collection: Collection, path: Path) -> bool:
    """Tell whether two managers may write different values that mean the same.

    Such values are never shown, either: they may be secrets.
    """
    return any(
        collection.plural == plural and path[: len(opaque)] == opaque
        for plural, opaque in _OPAQUE
    )


def of_writers(path: Path) -> bool:
    """Tell whether writers decide a field, not the server."""
    if path[0] in _HEAD:
        return False
    return not (path[0] == "metadata" and len(path) > 1 and path[1] in _OF_SERVER)


def changed_fields(old: JSON, new: JSON) -> Iterator[tuple[Path, Any]]:
    """Yield the fields that a write changes, and their new values."""
    for path, value in differences(old, new):
        if of_writers(path):
            yield path, value


def has_value(
    collection: Collection,
    obj: JSON,
    path: Path,
    value: Any,  # noqa: ANN401 - JSON
    tolerance: float,
) -> bool:
    """Tell whether an object has a value in a field, see `are_same`."""
    real = value_at(obj, path)
    if is_opaque(collection, path):
        return is_empty(real) == is_empty(value)
    return are_same(real, value, tolerance)


def unlike(
    collection: Collection, real: JSON, sent: JSON, tolerance: float
) -> Iterator[tuple[Path, Any]]:
    """Yield the fields of a created object that the object on the server lacks.

    The server may add fields, and items to lists: defaults, and those of admission. It
    drops the status of a new object, and other controllers write it soon.
    """
    for path, value in differences(real, sent):
        if value is REMOVED or path[0] == "status" or not of_writers(path):
            continue
        if has_value(collection, real, path, value, tolerance):
            continue
        if not _has_items(value_at(real, path), value, tolerance):
            yield path, value


def _has_items(real: Any, sent: Any, tolerance: float) -> bool:  # noqa: ANN401 - JSON
    if not (isinstance(real, list) and isinstance(sent, list)):
        return False
    return all(any(_is_part(item, each, tolerance) for each in real) for item in sent)


def _is_part(sent: Any, real: Any, tolerance: float) -> bool:  # noqa: ANN401 - JSON
    """Tell whether `real` has all that was sent."""
    if isinstance(sent, dict) and isinstance(real, dict):
        return all(
            _is_part(value, real.get(name, REMOVED), tolerance)
            for name, value in sent.items()
        )
    if isinstance(sent, list) and isinstance(real, list):
        return _has_items(real, sent, tolerance)
    return are_same(real, sent, tolerance)


def controller_of(obj: JSON) -> JSON | None:
    """Return the owner reference of the controller of an object, None for none."""
    references = objects_at(object_at(obj, "metadata"), "ownerReferences")
    return next((each for each in references if each.get("controller")), None)


def controller_uid(obj: JSON) -> str:
    """Return the uid of the controller that owns an object, empty for none."""
    return str((controller_of(obj) or {}).get("uid", ""))


def identity_of(target: Target, obj: JSON) -> str:
    """Return the name of a created object; for a generated name, with its owner."""
    generated = object_at(obj, "metadata").get("generateName")
    if not generated:
        return str(target.key)
    owner = controller_of(obj)
    by = f"{owner.get('kind')} {owner.get('name')}" if owner is not None else ""
    where = f"{target.namespace}/" if target.namespace else ""
    return f"{target.collection.group_resource} {where}{generated}* of {by}"


def with_other_uid(value: Any, old: str, new: str) -> Any:  # noqa: ANN401 - JSON
    """Return a value in which one uid is replaced by another, wherever it is."""
    if value is REMOVED:
        return value
    encoded = msgspec.json.encode(value)
    if old.encode() not in encoded:
        return value
    return msgspec.json.decode(encoded.replace(old.encode(), new.encode()))


def with_other_uids(value: Any, uids: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    """Return a value in which each uid that `uids` has is replaced by its value."""
    encoded = msgspec.json.encode(value)
    found = {each for each in _UID.findall(encoded) if each.decode() in uids}
    for old in found:
        encoded = encoded.replace(old, uids[old.decode()].encode())
    return msgspec.json.decode(encoded) if found else value
