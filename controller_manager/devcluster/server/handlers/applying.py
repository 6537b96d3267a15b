"""PATCH with server-side apply.

Upstream: apiserver/pkg/endpoints/handlers/patch.go (applyPatcher).
"""

from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme.bodies import YAMLBodyError
from controller_manager.devcluster.scheme.query import is_true
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    conflict,
    invalid_object,
    required,
)
from controller_manager.devcluster.server.fields.checking import faults_of
from controller_manager.devcluster.server.fields.field_manager import FieldManager
from controller_manager.devcluster.server.fields.field_type import FieldType
from controller_manager.devcluster.server.fields.model_types import type_of_model
from controller_manager.devcluster.server.http.negotiation import (
    decode_object,
    yaml_problems,
)
from controller_manager.devcluster.server.http.object_bodies import check_object
from controller_manager.devcluster.server.http.request_info import Target
from controller_manager.devcluster.server.http.responses import written
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.registry.scale import (
    scale_of,
    scaled,
    with_value,
)
from controller_manager.devcluster.server.rest.kind import Kind, in_version, to_stored
from controller_manager.devcluster.server.storage.storage import Stored

_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"


def apply_configuration(
    objects: Objects, target: Target, request: Request, fields: FieldManager
) -> Response:
    """Apply the configuration in a body; create an absent object.

    Raises Refusal.
    """
    kind = target.kind
    version = fields.version
    config = _configuration(target, request, version.api_version, kind.kind)
    problems = _problems(target, config, request.body or b"")
    _check_types(config, version.type)
    if objects.has(kind, target.namespace, target.name) or target.subresource:
        code, stored = 200, _changed(objects, target, fields, config)
    else:
        code, stored = 201, _created(objects, target, fields, config)
    return written(code, in_version(kind, stored), problems, target.field_validation)


def _problems(target: Target, config: JSON, body: bytes) -> list[str]:
    """Return the repeated keys of a body, as the request asks for them.

    Raises Refusal if they are not allowed.
    """
    if target.field_validation == "Ignore":
        return []
    try:
        problems = yaml_problems(config, body)
    except YAMLBodyError:
        return []  # JSON with surrogates, which YAML does not have
    if problems and target.field_validation == "Strict":
        text = f"error converting YAML to JSON: {problems[0]}"
        raise bad_request(f"error strict decoding YAML: {text}")
    return problems


def apply_scale(
    objects: Objects, target: Target, request: Request, fields: FieldManager
) -> JSON:
    """Apply a Scale; return that of the object.

    The manager of the replicas becomes a manager of the object. Raises Refusal.
    """
    kind = target.kind
    config = _configuration(target, request, "autoscaling/v1", "Scale")
    _check_types(config, type_of_model(_SCALE))
    stored = objects.find(kind, target.namespace, target.name)
    replicas = (config.get("spec") or {}).get("replicas")
    wanted: JSON = {}
    if replicas is not None:
        wanted = with_value({}, kind.scale_paths.replicas, replicas)
    current = in_version(kind, stored).obj
    force = is_true(target.query, "force")
    applied, managers = fields.applied(current, wanted, force=force)
    scale = scale_of(kind, Stored(applied, stored.version))
    version = (config.get("metadata") or {}).get("resourceVersion")
    scale["metadata"]["resourceVersion"] = version
    return scaled(objects, target, scale, lambda _old, _new, _given: managers)


def _configuration(
    target: Target, request: Request, api_version: str, kind: str
) -> JSON:
    """Return the configuration in a body; raises Refusal if it is of another kind."""
    if not target.query.get("fieldManager"):
        cause = required("fieldManager", "is required for apply patch")
        raise invalid_object("meta.k8s.io", "PatchOptions", "", [cause])
    config = _decoded_body(request.body or b"", kind, api_version)
    given = _shown_kind(config.get("apiVersion"), config.get("kind"))
    if given != _shown_kind(api_version, kind):
        raise bad_request(f"invalid object type: {given}")
    if config.get("metadata") is None:
        config.pop("metadata", None)
    return config


def _decoded_body(body: bytes, kind: str, api_version: str) -> JSON:
    """Return the object in a body of YAML; most clients send JSON, which is YAML."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return decode_object(body, "application/yaml", kind, api_version)


def _check_types(config: JSON, type_: FieldType) -> None:
    """Raise Refusal for a configuration that has other fields than its type."""
    metadata = config.get("metadata", {})
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    try:
        faults = faults_of(config, type_)
    except RecursionError:
        raise bad_request("error decoding YAML: exceeded max depth") from None
    if faults:
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        kind = _shown_kind(config["apiVersion"], config["kind"])
        what = f"{namespace}/{name}; {kind}"
        message = f"failed to create typed patch object ({what}): {faults}"
        raise Refusal(500, "", message)


def _shown_kind(api_version: Any, kind: Any) -> str:
    """Return a kind as upstream's messages show it: ``apps/v1, Kind=Deployment``."""
    version = str(api_version or "")
    return f"{version if '/' in version else f'/{version}'}, Kind={kind or ''}"


def _created(
    objects: Objects, target: Target, fields: FieldManager, config: JSON
) -> Stored:
    metadata = {**(config.get("metadata") or {}), "name": target.name}
    if uid := metadata.get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {uid}, and no existing "
            "object was found"
        )
        raise conflict(target.kind.group, target.kind.plural, target.name, why)
    named = {**config, "metadata": metadata}
    _, managers = fields.applied({"metadata": {}}, config, force=False)
    return objects.create(
        target.kind.stored,
        target.namespace,
        to_stored(target.kind, _decoded(target.kind, named)),
        dry_run=target.dry_run,
        managed=lambda _: managers,
        user=target.user,
        submission=target.submission,
    )


def _decoded(kind: Kind, obj: JSON) -> JSON:
    """Return an object as Go decodes it: without nulls and empty fields."""
    found, _ = check_object(obj, kind, kind.version)
    return found


def _changed(
    objects: Objects, target: Target, fields: FieldManager, config: JSON
) -> Stored:
    kind = target.kind
    stored = objects.find(kind, target.namespace, target.name)
    current = in_version(kind, stored).obj
    force = is_true(target.query, "force")
    applied, managers = fields.applied(current, config, force=force)
    return objects.update(
        kind.stored,
        target.namespace,
        target.name,
        to_stored(kind, _decoded(kind, applied)),
        target.subresource,
        dry_run=target.dry_run,
        uid_is_precondition=False,
        managed=lambda _old, _new, _given: managers,
        submission=target.submission,
    )
