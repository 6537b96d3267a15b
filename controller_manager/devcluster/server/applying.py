"""PATCH with a configuration that is applied (server-side apply)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from controller_manager.api.times import format_time
from controller_manager.client.transport import Request, Response
from controller_manager.clock import Clock
from controller_manager.devcluster.server.apply import (
    FieldManager,
    Manager,
    with_managers,
)
from controller_manager.devcluster.server.conversion import in_version, to_stored
from controller_manager.devcluster.server.messages import Message
from controller_manager.devcluster.server.negotiation import (
    check_object,
    decode_object,
    header,
    strict_error,
)
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.query import is_true
from controller_manager.devcluster.server.responses import written
from controller_manager.devcluster.server.routing import Target
from controller_manager.devcluster.server.statuses import (
    bad_request,
    conflict,
    invalid_object,
    required,
)
from controller_manager.devcluster.server.storage import Stored

JSON = dict[str, Any]
Permit = Callable[[JSON, JSON], None]
"""Raises Refusal if a user may not change the old object to the new one."""


def field_manager(
    target: Target, request: Request, operation: str, clock: Clock
) -> FieldManager:
    """Return the manager of fields that a request names, or its user agent."""
    agent = header(request.headers, "user-agent").partition("/")[0]
    name = target.query.get("fieldManager") or agent or "unknown"
    manager = Manager(name, operation, target.subresource)
    return FieldManager(target.kind, manager, format_time(clock.now()))


def apply_configuration(
    objects: Objects,
    messages: Callable[[], Mapping[str, Message]],
    target: Target,
    request: Request,
    permit: Permit,
) -> Response:
    """Apply the configuration in a body; an object that is absent is created.

    `permit` refuses changes that the user may not make.

    Raises Refusal.
    """
    kind = target.kind
    body = decode_object(request.body or b"", "application/yaml", kind.kind, messages)
    config, unknown = check_object(body, kind, kind.version)
    if unknown and target.field_validation == "Strict":
        raise strict_error(kind, kind.version, unknown)
    _check(target, config)
    fields = field_manager(target, request, "Apply", objects.clock)
    if objects.has(kind, target.namespace, target.name) or target.subresource:
        code, stored = 200, _changed(objects, target, fields, config, permit)
    else:
        code, stored = 201, _created(objects, target, fields, config)
    shown = in_version(kind, stored)
    return written(code, shown, unknown, target.field_validation)


def _check(target: Target, config: JSON) -> None:
    if not target.query.get("fieldManager"):
        cause = required("fieldManager", "is required for apply patch")
        raise invalid_object("meta.k8s.io", "PatchOptions", "", [cause])
    if config.get("metadata", {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")


def _created(
    objects: Objects, target: Target, fields: FieldManager, config: JSON
) -> Stored:
    metadata = {**config.get("metadata", {}), "name": target.name}
    if uid := metadata.get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {uid}, and no existing "
            "object was found"
        )
        raise conflict(target.kind.group, target.kind.plural, target.name, why)
    named = {**config, "metadata": metadata}
    managers = fields.first(named)
    return objects.create(
        target.kind.stored,
        target.namespace,
        to_stored(target.kind, named),
        dry_run=target.dry_run,
        managed=partial(with_managers, managers),
        user=target.user,
        submission=target.submission,
    )


def _changed(
    objects: Objects,
    target: Target,
    fields: FieldManager,
    config: JSON,
    permit: Permit,
) -> Stored:
    stored = objects.find(target.kind, target.namespace, target.name)
    current = in_version(target.kind, stored).obj
    force = is_true(target.query, "force")
    applied, managers = fields.applied(current, config, force=force)

    def managed(old: JSON, new: JSON) -> JSON:
        permit(old, new)
        return with_managers(managers, new)

    return objects.update(
        target.kind.stored,
        target.namespace,
        target.name,
        to_stored(target.kind, applied),
        target.subresource,
        dry_run=target.dry_run,
        uid_is_precondition=False,
        managed=managed,
        submission=target.submission,
    )
