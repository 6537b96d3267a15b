"""Preconditions: the resource version and uid that a request expects."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    conflict,
    invalid_object,
    required,
)
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.rest.kind import Kind

_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version "
    "and try again"
)


def check_version(kind: Kind, old: JSON, given: str) -> None:
    """Check the resourceVersion that an update carries; raises Refusal."""
    current = old["metadata"]
    if not given and not kind.strategy.allows_unconditional_update:
        cause = required("metadata.resourceVersion", "must be specified for an update")
        raise invalid_object(kind.group, kind.kind, current["name"], [cause])
    if given and given != current["resourceVersion"]:
        raise conflict(kind.group, kind.plural, current["name"], _MODIFIED)


def check_uid(kind: Kind, old: JSON, given: str) -> None:
    """Check the uid of a PUT, if it has one; raises Refusal."""
    current = old["metadata"]
    if not given or given == current["uid"]:
        return
    name, namespace = current["name"], current.get("namespace", "")
    path = f"{namespace}/{name}" if namespace else name
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/"
        f"{path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID "
        f"in precondition: {given}, UID in object meta: {current['uid']}"
    )
    raise conflict(kind.group, kind.plural, name, why)


def check_deletion(kind: Kind, obj: JSON, options: Deletion) -> None:
    """Check the preconditions of a DELETE; raises Refusal."""
    metadata = obj["metadata"]
    name = metadata["name"]
    if options.uid and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID "
            f"in record ({metadata['uid']}). The object might have been deleted "
            "and then recreated"
        )
        raise conflict(kind.group, kind.kind, name, why)
    version = metadata["resourceVersion"]
    if options.resource_version and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version})"
            f" does not match the ResourceVersion in record ({version}). The "
            "object might have been modified"
        )
        raise conflict(kind.group, kind.kind, name, why)
