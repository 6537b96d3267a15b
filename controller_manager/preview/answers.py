"""The answers of an API server: objects, and refusals with a Status."""

from http import HTTPStatus
from typing import Any, Final

import msgspec

from controller_manager.client.rest.errors import NAMESPACE_TERMINATING
from controller_manager.client.rest.transport import Response

from .fields import JSON
from .target import Target

_HEADERS: Final = {"content-type": "application/json"}
_PARTIAL: Final = "as=PartialObjectMetadata"


class Refused(Exception):
    """A request that is answered with a Status."""

    def __init__(self, answer: Response) -> None:
        super().__init__(f"HTTP {answer.status}")
        self.answer = answer


def wants_metadata(accept: str) -> bool:
    """Tell whether a request asks for the metadata of objects only."""
    return _PARTIAL in accept


def object_answer(obj: JSON, accept: str, status: int = HTTPStatus.OK) -> Response:
    """Return the answer that contains an object, in the form that is asked for."""
    shown = partial(obj) if wants_metadata(accept) else obj
    return Response(status, _HEADERS, msgspec.json.encode(shown))


def partial(obj: JSON) -> JSON:
    """Return the metadata of an object as PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }


def success() -> Response:
    """Return the answer to a delete."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
    return Response(HTTPStatus.OK, _HEADERS, msgspec.json.encode(body))


def refusal(
    target: Target,
    code: int,
    reason: str,
    message: str,
    causes: tuple[JSON, ...] = (),
) -> Refused:
    """Return a refusal with a Status, as the API server words it."""
    details: dict[str, Any] = {
        "name": target.name,
        "group": target.collection.group,
        "kind": target.collection.plural,
    }
    if causes:
        details["causes"] = list(causes)
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }
    return Refused(Response(code, _HEADERS, msgspec.json.encode(body)))


def not_found(target: Target) -> Refused:
    """Return the refusal for an object that does not exist."""
    message = f'{target.collection.group_resource} "{target.name}" not found'
    return refusal(target, HTTPStatus.NOT_FOUND, "NotFound", message)


def already_exists(target: Target) -> Refused:
    """Return the refusal for an object that exists already."""
    message = f'{target.collection.group_resource} "{target.name}" already exists'
    return refusal(target, HTTPStatus.CONFLICT, "AlreadyExists", message)


def conflict(target: Target, why: str) -> Refused:
    """Return the refusal for an object that has changed."""
    message = (
        "Operation cannot be fulfilled on "
        f'{target.collection.group_resource} "{target.name}": {why}'
    )
    return refusal(target, HTTPStatus.CONFLICT, "Conflict", message)


def namespace_ending(target: Target) -> Refused:
    """Return the refusal for a new object in a namespace that is being deleted."""
    message = (
        f'{target.collection.group_resource} "{target.name}" is forbidden: unable to '
        f"create new content in namespace {target.namespace} because it is being "
        "terminated"
    )
    cause = {
        "reason": NAMESPACE_TERMINATING,
        "message": f"namespace {target.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return refusal(target, HTTPStatus.FORBIDDEN, "Forbidden", message, (cause,))


def expired(target: Target) -> Refused:
    """Return the refusal of a watch that begins at a forgotten change."""
    message = "The resourceVersion for the provided watch is too old."
    return refusal(target, HTTPStatus.GONE, "Expired", message)
