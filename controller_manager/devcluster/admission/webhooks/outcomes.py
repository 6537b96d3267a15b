"""The outcome of a webhook's answer for a write (webhook/errors, dispatcher.go)."""

from typing import Any

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal, bad_request
from controller_manager.devcluster.webhook.failures import Failure

_LEAST_CODE, _MOST_CODE = 400, 599


class Answer(Struct, frozen=True):
    """A valid answer. `status` is that of a webhook that refuses the write."""

    allowed: bool
    status: JSON = {}
    patch: Any = None
    warnings: tuple[str, ...] = ()


Outcome = Failure | Answer


def internal_error(message: str) -> Refusal:
    """Return a 500 (NewInternalError)."""
    details = {"causes": [{"message": message}]}
    text = f"Internal error occurred: {message}"
    return Refusal(500, "InternalError", text, details)


def calling_failed(name: str, failure: Failure) -> Refusal:
    """Return the refusal after a failed call of a webhook with failurePolicy Fail."""
    return internal_error(f'failed calling webhook "{name}": {failure.why}')


def no_dry_run(name: str) -> Refusal:
    """Return the refusal of a dry run that a webhook does not support."""
    return bad_request(f'admission webhook "{name}" does not support dry run')


def denied(name: str, status: JSON) -> Refusal:
    """Return the refusal that a webhook wants (ToStatusErr)."""
    text = f'admission webhook "{name}" denied the request'
    reason = str(status.get("reason") or "")
    if why := status.get("message") or reason:
        text = f"{text}: {why}"
    else:
        text = f"{text} without explanation"
    code = int(status.get("code") or 0)
    if not _LEAST_CODE <= code <= _MOST_CODE:
        code = _LEAST_CODE
    return Refusal(code, reason, text, status.get("details"))
