"""Converts the objects of a write to the version of a webhook or a policy."""

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.admission import Write
from controller_manager.devcluster.server.rest.kind import Kind, in_version
from controller_manager.devcluster.server.storage.storage import Stored

from .matching import namespace_of


def in_requested(write: Write, kind: Kind, obj: JSON | None) -> JSON | None:
    """Return the new or the old object of a write in the version of `kind`.

    The body of a subresource with its own kind is not converted. The result is a copy:
    callers may change it.
    """
    if obj is None:
        return None
    if body := write.body_kind:
        group, version, name = body
        api_version = f"{group}/{version}" if group else version
        rest = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}
        found = {"kind": name, "apiVersion": api_version, **rest}
    else:
        head = {"kind": write.kind.kind, "apiVersion": write.kind.api_version}
        complete = {**head, **{k: v for k, v in obj.items() if k not in head}}
        if obj.get("apiVersion") and write.kind.is_custom:
            complete["apiVersion"] = obj["apiVersion"]
        found = in_version(kind, Stored(complete, 0)).obj
    decoded: JSON = msgspec.json.decode(msgspec.json.encode(found))
    return decoded


def request_of(write: Write, kind: Kind) -> JSON:
    """Return the fields of an AdmissionRequest but the uid and the objects.

    `kind` is the kind in the requested version (AdmissionRequest of
    k8s.io/api/admission/v1). Fields that Go omits when they are empty are absent.
    """
    asked, given = write.requested, write.user
    found: JSON = {
        "kind": _kind_of(write, kind),
        "resource": _resource_of(kind),
        "subResource": write.subresource,
        "requestKind": _kind_of(write, asked),
        "requestResource": _resource_of(asked),
        "requestSubResource": write.subresource,
        "name": write.name,
        "namespace": namespace_of(write),
        "operation": str(write.operation),
        "userInfo": given.as_json(),
        "dryRun": write.is_dry_run,
        "options": write.options(),
    }
    omitted = ("subResource", "requestSubResource", "name", "namespace")
    return {k: v for k, v in found.items() if v or k not in omitted}


def _kind_of(write: Write, kind: Kind) -> JSON:
    group, version, name = write.body_kind or (kind.group, kind.version, kind.kind)
    return {"group": group, "version": version, "kind": name}


def _resource_of(kind: Kind) -> JSON:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}
