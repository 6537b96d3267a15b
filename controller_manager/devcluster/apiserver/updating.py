"""PUT, PATCH and server-side apply: requests that change an object."""

from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.request_info import is_true
from controller_manager.devcluster.scheme import patches, statuses
from controller_manager.devcluster.scheme.decoding import YAMLBodyError
from controller_manager.devcluster.storage import Stored

from . import negotiation
from .field_manager import FieldManager, field_manager
from .field_type import FieldType, faults_of, type_of_model
from .kind import Catalogue, Kind, in_version, to_stored
from .objects import Managed, Objects, scale_of, scaled, with_value
from .request_info import Target, not_served
from .responses import json_response, written

# PATCH: the media types of patches, and the refusals.

APPLY: Final = "application/apply-patch+yaml"
_ALWAYS: Final = ("application/json-patch+json", "application/merge-patch+json", APPLY)
_PATCH_TYPES: Final = (*_ALWAYS, "application/strategic-merge-patch+json")


def patched(obj: JSON, patch: Any, content_type: str, kind: Kind) -> JSON:
    """Return an object, or its scale, changed by a patch; raises Refusal."""
    try:
        match content_type:
            case "application/json-patch+json":
                result = patches.json_patch(obj, patch)
            case "application/merge-patch+json":
                result = patches.merge_patch(obj, patch)
            case _:
                result = patches.strategic_merge_patch(obj, patch, kind.type_name or "")
    except patches.TooMuchError as error:
        message = f"Request entity too large: {error}"
        raise statuses.Refusal(413, "RequestEntityTooLarge", message) from None
    except patches.PatchError:
        message = "the server rejected our request due to an error in our request"
        raise statuses.Refusal(422, "Invalid", message, {}) from None
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise statuses.bad_request(f"a patch must leave a {kind.kind} behind")
    return result


# PATCH with server-side apply.

_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"


def _apply_configuration(
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
        problems = negotiation.yaml_problems(config, body)
    except YAMLBodyError:
        return []  # JSON with surrogates, which YAML does not have
    if problems and target.field_validation == "Strict":
        text = f"error converting YAML to JSON: {problems[0]}"
        raise statuses.bad_request(f"error strict decoding YAML: {text}")
    return problems


def _apply_scale(
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
        cause = statuses.required("fieldManager", "is required for apply patch")
        raise statuses.invalid_object("meta.k8s.io", "PatchOptions", "", [cause])
    config = _decoded_body(request.body or b"", kind, api_version)
    given = _shown_kind(config.get("apiVersion"), config.get("kind"))
    if given != _shown_kind(api_version, kind):
        raise statuses.bad_request(f"invalid object type: {given}")
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
    return negotiation.decode_object(body, "application/yaml", kind, api_version)


def _check_types(config: JSON, type_: FieldType) -> None:
    metadata = config.get("metadata", {})
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("managedFields") is not None:
        raise statuses.bad_request("metadata.managedFields must be nil")
    try:
        faults = faults_of(config, type_)
    except RecursionError:
        raise statuses.bad_request("error decoding YAML: exceeded max depth") from None
    if faults:
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        kind = _shown_kind(config["apiVersion"], config["kind"])
        what = f"{namespace}/{name}; {kind}"
        message = f"failed to create typed patch object ({what}): {faults}"
        raise statuses.Refusal(500, "", message)


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
        raise statuses.conflict(target.kind.group, target.kind.plural, target.name, why)
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
    found, _ = negotiation.check_object(obj, kind, kind.version)
    return found


def _changed(
    objects: Objects, target: Target, fields: FieldManager, config: JSON
) -> Stored:
    kind = target.kind
    stored = objects.find(kind, target.namespace, target.name)
    current = in_version(kind, stored).obj
    force = is_true(target.query, "force")
    applied, managers = fields.applied(current, config, force=force)
    decoded = _decoded(kind, applied)
    return _updated(objects, target, decoded, lambda _old, _new, _given: managers)


def _updated(
    objects: Objects,
    target: Target,
    obj: JSON,
    managed: Managed,
    *,
    uid_is_precondition: bool = False,
) -> Stored:
    return objects.update(
        target.kind.stored,
        target.namespace,
        target.name,
        to_stored(target.kind, obj),
        target.subresource,
        dry_run=target.dry_run,
        uid_is_precondition=uid_is_precondition,
        managed=managed,
        submission=target.submission,
    )


# PUT and PATCH: requests that change an object, its status or its scale.

WHOLE_OBJECTS: Final = frozenset(("", "status"))
"""Subresources whose body is the whole object, for every kind that has them."""


class Updater:
    """Answers PUT and PATCH."""

    def __init__(self, objects: Objects, catalogue: Catalogue) -> None:
        self._objects = objects
        self._catalogue = catalogue

    def put(self, target: Target, request: Request) -> Response:
        """Replace an object, its status or its scale; raises Refusal."""
        if target.subresource == "scale":
            managed = self._managed(target, request)
            body = negotiation.body_of(request, "Scale", "autoscaling/v1")
            return self._scaled(target, body, managed)
        _check_replaceable(target)
        body, problems = negotiation.decoded_body(target, request)
        managed = self._managed(target, request)
        return self._updated(target, body, managed, problems, uid_is_precondition=True)

    def patch(self, target: Target, request: Request) -> Response:
        """Change an object, its status or its scale; raises Refusal."""
        kind = target.kind
        header = negotiation.header(request.headers, "content-type")
        content_type, _, _ = header.partition(";")
        accepted = _PATCH_TYPES if kind.strategy.merges_strategically else _ALWAYS
        if content_type not in accepted:
            raise statuses.unsupported_media_type("415: Unsupported Media Type", {})
        if content_type == APPLY:
            fields = self._fields(target, request, "Apply")
            if target.subresource == "scale":
                scale = _apply_scale(self._objects, target, request, fields)
                return json_response(200, scale)
            _check_replaceable(target)
            return _apply_configuration(self._objects, target, request, fields)
        patch, problems = negotiation.decode_patch(request.body or b"", content_type)
        stored = self._objects.find(kind, target.namespace, target.name)
        if target.subresource == "scale":
            current = scale_of(kind, stored)
            managed = self._managed(target, request)
            scale = patched(current, patch, content_type, kind)
            return self._scaled(target, scale, managed)
        _check_replaceable(target)
        shown = in_version(kind, stored)
        changed = patched(shown.obj, patch, content_type, kind)
        managed = self._managed(target, request)
        return self._updated(
            target, changed, managed, problems, uid_is_precondition=False
        )

    def _managed(self, target: Target, request: Request) -> Managed:
        return self._fields(target, request, "Update").updated

    def _fields(self, target: Target, request: Request, operation: str) -> FieldManager:
        clock, catalogue = self._objects.clock, self._catalogue
        return field_manager(target, request, operation, clock, catalogue)

    def _updated(
        self,
        target: Target,
        body: JSON,
        managed: Managed,
        problems: list[str],
        *,
        uid_is_precondition: bool,
    ) -> Response:
        obj, problems = negotiation.checked_body(
            target, body, problems, sorts=not uid_is_precondition
        )
        if (body.get("metadata") or {}).get("managedFields") == []:
            obj["metadata"]["managedFields"] = []  # dropped as all empty lists
        stored = _updated(
            self._objects,
            target,
            obj,
            managed,
            uid_is_precondition=uid_is_precondition,
        )
        shown = in_version(target.kind, stored)
        return written(200, shown, problems, target.field_validation)

    def _scaled(self, target: Target, scale: Any, managed: Managed) -> Response:
        return json_response(200, scaled(self._objects, target, scale, managed))


def _check_replaceable(target: Target) -> None:
    if target.subresource in WHOLE_OBJECTS:
        return
    subresource = target.kind.subresource(target.subresource)
    if subresource is None or subresource.replace is None:
        raise not_served(target, "update")
