"""PUT and PATCH: requests that change an object, its status or its scale."""

from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.server.fields.field_manager import FieldManager
from controller_manager.devcluster.server.http.negotiation import decode_patch, header
from controller_manager.devcluster.server.http.object_bodies import (
    body_of,
    checked_body,
    decoded_body,
)
from controller_manager.devcluster.server.http.request_info import Target, not_served
from controller_manager.devcluster.server.http.responses import json_response, written
from controller_manager.devcluster.server.registry.field_owners import field_manager
from controller_manager.devcluster.server.registry.objects import Managed, Objects
from controller_manager.devcluster.server.registry.scale import scale_of, scaled
from controller_manager.devcluster.server.rest.kind import (
    Catalogue,
    in_version,
    to_stored,
)

from .applying import apply_configuration, apply_scale
from .patch import APPLY, check_patch_type, patched

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
            body = body_of(request, "Scale", "autoscaling/v1")
            return self._scaled(target, body, managed)
        _check_replaceable(target)
        body, problems = decoded_body(target, request)
        managed = self._managed(target, request)
        return self._updated(target, body, managed, problems, uid_is_precondition=True)

    def patch(self, target: Target, request: Request) -> Response:
        """Change an object, its status or its scale; raises Refusal."""
        kind = target.kind
        content_type = header(request.headers, "content-type").partition(";")[0]
        check_patch_type(content_type, kind)
        if content_type == APPLY:
            fields = self._fields(target, request, "Apply")
            if target.subresource == "scale":
                scale = apply_scale(self._objects, target, request, fields)
                return json_response(200, scale)
            _check_replaceable(target)
            return apply_configuration(self._objects, target, request, fields)
        patch, problems = decode_patch(request.body or b"", content_type)
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
        """Return the function that returns the managers of changed fields."""
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
        kind = target.kind
        obj, problems = checked_body(
            target, body, problems, sorts=not uid_is_precondition
        )
        if (body.get("metadata") or {}).get("managedFields") == []:
            obj["metadata"]["managedFields"] = []  # dropped as all empty lists
        stored = self._objects.update(
            kind.stored,
            target.namespace,
            target.name,
            to_stored(kind, obj),
            target.subresource,
            dry_run=target.dry_run,
            uid_is_precondition=uid_is_precondition,
            managed=managed,
            submission=target.submission,
        )
        shown = in_version(kind, stored)
        return written(200, shown, problems, target.field_validation)

    def _scaled(self, target: Target, scale: Any, managed: Managed) -> Response:
        return json_response(200, scaled(self._objects, target, scale, managed))


def _check_replaceable(target: Target) -> None:
    """Raise Refusal 501 for a subresource that cannot be written."""
    if target.subresource in WHOLE_OBJECTS:
        return
    subresource = target.kind.subresource(target.subresource)
    if subresource is None or subresource.replace is None:
        raise not_served(target, "update")
