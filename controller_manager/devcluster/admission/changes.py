"""Replaces the new object of a write by a changed object."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.http.object_bodies import check_object
from controller_manager.devcluster.server.rest.admission import Write
from controller_manager.devcluster.server.rest.kind import Kind, to_stored


def take_changed(write: Write, changed: JSON, kind: Kind) -> None:
    """Make `changed`, in the version of `kind`, the new object of a write.

    It checks the types and fills in the defaults, as for an object of a client. The
    managers of the fields do not change. Raises Refusal for a wrong type.
    """
    obj = write.obj
    if obj is None or write.body_kind:
        write.obj = changed
        return
    checked, _ = check_object(changed, kind, kind.version)
    found = to_stored(kind, checked)
    if write.kind.is_custom and "apiVersion" in obj:
        found["apiVersion"] = obj["apiVersion"]
    managers = obj["metadata"].get("managedFields")
    if managers is not None:
        found["metadata"]["managedFields"] = managers
    write.kind.apply_defaults(found)
    write.obj = found
