"""The Status bodies with which an API server refuses (api/errors)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Refusal(Exception):
    """A refusal of a request; it carries the Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: int | None = None,
        continue_token: str = "",
    ) -> None:
        """Take the fields of the Status; `retry_after` is in seconds.

        With `continue_token`, a client can continue an expired list.
        """
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.continue_token = continue_token

    def status(self) -> JSON:
        """Return the body."""
        body: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.continue_token:
            body["metadata"] = {"continue": self.continue_token}
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = dict(self.details)
        body["code"] = self.code
        return body


class Cause:
    """One error of a field (field.Error)."""

    __slots__ = ("detail", "field", "reason")

    def __init__(self, reason: str, field: str, detail: str) -> None:
        self.reason = reason
        self.field = field
        self.detail = detail

    def as_json(self) -> JSON:
        """Return the StatusCause."""
        return {"reason": self.reason, "message": self.detail, "field": self.field}

    def __str__(self) -> str:
        """Return the text of the cause in a message."""
        return f"{self.field}: {self.detail}"


def shown(value: Any) -> str:
    """Return a value as upstream's messages show it."""
    return msgspec.json.encode(value).decode()


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a missing field."""
    text = f"Required value: {detail}" if detail else "Required value"
    return Cause("FieldValueRequired", field, text)


def invalid(field: str, value: str, detail: str) -> Cause:
    """Return the cause for a wrong value; `value` is JSON."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {value}: {detail}")


def invalid_field(field: str, detail: str) -> Cause:
    """Return the cause for a wrong value that the message does not show."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {detail}")


def duplicate(field: str, value: str) -> Cause:
    """Return the cause for a duplicate value; `value` is JSON."""
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {value}")


def too_many(field: str, count: int, most: int) -> Cause:
    """Return the cause for a list with more than `most` items."""
    items = "item" if most == 1 else "items"
    text = f"Too many: {count}: must have at most {most} {items}"
    return Cause("FieldValueTooMany", field, text)


def too_long(field: str, most: int) -> Cause:
    """Return the cause for a text with more than `most` bytes."""
    unit = "byte" if most == 1 else "bytes"
    text = f"Too long: may not be more than {most} {unit}"
    return Cause("FieldValueTooLong", field, text)


def forbidden_field(field: str, detail: str) -> Cause:
    """Return the cause for a field that must not have its value."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_supported(field: str, value: str, supported: Sequence[str]) -> Cause:
    """Return the cause for a value that is not among the supported ones."""
    values = ", ".join(f'"{each}"' for each in supported)
    text = f"Unsupported value: {value}: supported values: {values}"
    return Cause("FieldValueNotSupported", field, text)


def qualified(group: str, name: str) -> str:
    """Return ``name.group``, or ``name`` for the core group."""
    return f"{name}.{group}" if group else name


def _details(group: str, kind: str, name: str) -> JSON:
    details: JSON = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details


def of_code(code: int, message: str, reason: str = "") -> Refusal:
    """Return a refusal whose reason is that of the code, unless it is given."""
    return Refusal(code, reason or _REASONS.get(code, ""), message)


def bad_request(message: str) -> Refusal:
    """400."""
    return Refusal(400, "BadRequest", message)


def unauthorized() -> Refusal:
    """401."""
    return Refusal(401, "Unauthorized", "Unauthorized")


def forbidden(
    group: str, plural: str, name: str, why: str, causes: Sequence[JSON] = ()
) -> Refusal:
    """403: an admission plugin refuses the object."""
    details = _details(group, plural, name)
    if causes:
        details["causes"] = list(causes)
    resource = qualified(group, plural)
    return Refusal(
        403, "Forbidden", f'{resource} "{name}" is forbidden: {why}', details
    )


def not_found(group: str, plural: str, name: str) -> Refusal:
    """404: no such object."""
    message = f'{qualified(group, plural)} "{name}" not found'
    return Refusal(404, "NotFound", message, _details(group, plural, name))


def no_such_resource() -> Refusal:
    """404: the group version has no such resource."""
    message = "the server could not find the requested resource"
    return Refusal(404, "NotFound", message, {})


def method_not_allowed() -> Refusal:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, {})


def not_acceptable(message: str) -> Refusal:
    """406: the server has no answer in a form that the client accepts."""
    return Refusal(406, "NotAcceptable", message)


def already_exists(
    group: str,
    plural: str,
    name: str,
    *,
    is_generated: bool = False,
    is_deleted: bool = False,
) -> Refusal:
    """409: the name is in use, by an object that is being deleted if `is_deleted`.

    With `is_generated`, the server has generated the name.
    """
    details = _details(group, plural, name)
    message = f'{qualified(group, plural)} "{name}" already exists'
    if is_generated:
        message += ", the server was not able to generate a unique name for the object"
        details["retryAfterSeconds"] = 1
    if is_deleted:
        message = f"object is being deleted: {message}"
    wait = 1 if is_generated else None
    return Refusal(409, "AlreadyExists", message, details, retry_after=wait)


def conflict(group: str, kind: str, name: str, why: str) -> Refusal:
    """409: the object is not in the state that the client expects."""
    message = (
        f'Operation cannot be fulfilled on {qualified(group, kind)} "{name}": {why}'
    )
    return Refusal(409, "Conflict", message, _details(group, kind, name))


def expired(message: str, continue_token: str = "") -> Refusal:
    """410: the version is no longer in the history."""
    return Refusal(410, "Expired", message, continue_token=continue_token)


def too_large_body(limit: int) -> Refusal:
    """413: the body of the request has more than `limit` bytes."""
    message = f"Request entity too large: limit is {limit}"
    return Refusal(413, "RequestEntityTooLarge", message)


def slow_request() -> Refusal:
    """504: the request took longer than the server waits (filters/timeout.go)."""
    message = "request did not complete within the allotted timeout"
    return Refusal(504, "Timeout", f"Timeout: {message}", {})


def unsupported_media_type(message: str, details: JSON | None = None) -> Refusal:
    """415."""
    return Refusal(415, "UnsupportedMediaType", message, details)


def invalid_object(
    group: str, kind: str, name: str, causes: Sequence[Cause]
) -> Refusal:
    """422: the object fails validation, for these causes."""
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(group, kind, name)
    details["causes"] = [cause.as_json() for cause in causes]
    message = f'{qualified(group, kind)} "{name}" is invalid: {listed}'
    return Refusal(422, "Invalid", message, details)


def not_implemented(message: str) -> Refusal:
    """501: the Kubernetes API has the resource, but this server does not serve it."""
    return Refusal(501, "NotImplemented", message, {})


def too_large_version(wanted: int, current: int) -> Refusal:
    """504: the version is not reached yet."""
    details = {
        "causes": [
            {
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }
        ],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return Refusal(504, "Timeout", message, details, retry_after=1)


def success(code: int | None = None, details: JSON | None = None) -> JSON:
    """Return the Status body of a success."""
    body: JSON = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    if details is not None:
        body["details"] = details
    if code is not None:
        body["code"] = code
    return body
