"""The form in which objects are stored: copies, and the place in a namespace."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import bad_request
from controller_manager.devcluster.server.fields.entries import (
    same_but_for_time,
    with_entries,
)
from controller_manager.devcluster.server.rest.kind import Kind

SERVER_OWNED: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
"""Fields of the metadata that clients cannot change."""

_NESTED: Final = (dict, list)


def copied(value: Any) -> Any:
    """Return a copy of a JSON value; copy.deepcopy takes several times as long.

    Most values are texts: copy them without a call.
    """
    if isinstance(value, dict):
        return {
            key: copied(each) if type(each) in _NESTED else each
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [copied(each) if type(each) in _NESTED else each for each in value]
    return value


def copied_object(given: JSON) -> tuple[JSON, Any]:
    """Return a copy of an object without its managedFields, and the managedFields."""
    entries = None
    if (metadata := given.get("metadata")) and "managedFields" in metadata:
        metadata = dict(metadata)
        entries = metadata.pop("managedFields")
    obj: JSON = copied({**given, "metadata": metadata or {}})
    return obj, entries


def complete(kind: Kind, obj: JSON) -> JSON:
    """Return an object as it is stored: kind and apiVersion come first.

    A stored object that has changed is so already, and is not copied.
    """
    shown = with_null_times(kind.null_condition_times, obj)
    if _is_headed(kind, shown):
        return shown
    return {**kind.head, **shown}


def _is_headed(kind: Kind, obj: JSON) -> bool:
    """Tell whether the kind and the apiVersion come first in an object."""
    fields = iter(obj.items())
    return next(fields, None) == ("kind", kind.kind) and next(fields, None) == (
        "apiVersion",
        kind.api_version,
    )


def is_same(new: JSON, old: JSON) -> bool:
    """Tell whether an update changes nothing, or only times of managers.

    Upstream: apiserver/pkg/endpoints/handlers/fieldmanager/equality.go.
    """
    if new == old:
        return True
    before, after = (each["metadata"].get("managedFields") for each in (old, new))
    if not before or not after or not same_but_for_time(before, after):
        return False
    return with_entries(new, []) == with_entries(old, [])


def with_null_times(names: Sequence[str], obj: JSON) -> JSON:
    """Return `obj` with null for absent condition times that Go always writes."""
    conditions = obj.get("status", {}).get("conditions") if names else None
    if not conditions or not _lack(conditions, names):
        return obj
    complete = [{**dict.fromkeys(names), **condition} for condition in conditions]
    return {**obj, "status": {**obj["status"], "conditions": complete}}


def _lack(conditions: Sequence[JSON], names: Sequence[str]) -> bool:
    """Tell whether a condition lacks one of these fields; most have all."""
    for condition in conditions:
        for name in names:
            if name not in condition:
                return True
    return False


def with_managers(
    kind: Kind, obj: JSON, managed: Callable[[JSON], list[JSON]] | None
) -> JSON:
    """Return a new object with the managers of its fields, if there are any."""
    if managed is None:
        return obj
    shown = with_null_times(kind.null_condition_times, obj)
    return with_entries(obj, managed(shown))


def place(kind: Kind, namespace: str, metadata: JSON) -> None:
    """Put an object into the namespace of its path; raises Refusal for another one."""
    given = metadata.get("namespace", "")
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        message = (
            "the namespace of the provided object does not match the "
            "namespace sent on the request"
        )
        raise bad_request(message)
    metadata["namespace"] = namespace


def check_identity(kind: Kind, namespace: str, name: str, metadata: JSON) -> None:
    """Raise Refusal unless an object has the namespace and the name of its path."""
    place(kind, namespace, metadata)
    given = metadata.get("name", "")
    if not given:
        message = (
            f"the name of the object ({name} based on URL) was undeterminable: name "
            "must be provided"
        )
        raise bad_request(message)
    if given != name:
        message = (
            f"the name of the object ({given}) does not match the name on the "
            f"URL ({name})"
        )
        raise bad_request(message)
