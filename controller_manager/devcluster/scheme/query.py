"""Query parameters: booleans, numbers, dryRun, continue tokens, list options."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from .statuses import (
    Cause,
    Refusal,
    bad_request,
    forbidden_field,
    invalid_object,
    not_supported,
    shown,
)

# Continue tokens: the position at which the next page of a list begins.

LATEST: Final = -1
"""The version in a token of a list that goes on with the present state."""


def encode_continue(version: int, start: str) -> str:
    """Return the token of a page that begins after `start`, at a version."""
    body = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
    return base64.urlsafe_b64encode(msgspec.json.encode(body)).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, str]:
    """Return version and start of a token; raises Refusal 400."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise _bad_token("illegal base64 data") from None
    try:
        body = msgspec.json.decode(raw)
        return int(body["rv"]), str(body["start"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        first = raw[:1]
        printable = first.isascii() and first.decode().isprintable()
        character = first.decode() if printable else f"\\x{first.hex()}"
        why = f"invalid character '{character}' looking for beginning of value"
        raise _bad_token(why) from None


def _bad_token(why: str) -> Refusal:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


# Query parameters: booleans, numbers, dryRun, and checks of list options.

_MATCH: Final = "resourceVersionMatch"
_NOT_OLDER: Final = "NotOlderThan"
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_OPTIONS: Final = {
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
}
"""The kind of the parameters of a write, by its method."""

_INT64: Final = 2**63


def is_true(query: Mapping[str, str], name: str) -> bool:
    """Tell whether a parameter is true.

    It is false if it is absent, ``0`` or ``false``, and true with all other values and
    without a value (runtime/conversion.go).
    """
    value = query.get(name)
    return value is not None and value != "0" and value.lower() != "false"


def whole_number(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a parameter as a number of 64 bits; raises Refusal 400."""
    text = query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise bad_request(f"strconv.ParseInt: parsing {shown(text)}: invalid syntax")
    number = int(text) if len(text) < 30 else _INT64
    if not -_INT64 <= number < _INT64:
        raise bad_request(
            f"strconv.ParseInt: parsing {shown(text)}: value out of range"
        )
    return number


def wants_initial_events(query: Mapping[str, str]) -> bool:
    """Tell whether a watch begins with the present objects.

    It does so without a resourceVersion, or with 0, unless ``sendInitialEvents`` says
    otherwise (meta/internalversion/defaults.go).
    """
    if "sendInitialEvents" in query:
        return is_true(query, "sendInitialEvents")
    return query.get("resourceVersion", "") in ("", "0")


def check_write_options(method: str, query: Mapping[str, str]) -> None:
    """Check ``fieldValidation`` and ``dryRun`` of a write; raises Refusal 422.

    Upstream: meta/v1/validation/validation.go.
    """
    causes = []
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        value = f"[]string{{{shown(dry_run)}}}"
        causes.append(not_supported("dryRun", value, ["All"]))
    validation = query.get("fieldValidation", "")
    if method != "DELETE" and validation not in _VALIDATIONS:
        cause = not_supported("fieldValidation", shown(validation), _VALIDATIONS)
        causes.append(cause)
    if causes:
        kind = _OPTIONS.get(method, "DeleteOptions")
        raise invalid_object("meta.k8s.io", kind, "", causes)


def check_list_options(query: Mapping[str, str]) -> None:
    """Check the parameters of a list or watch against each other; raises Refusal 422.

    Upstream: meta/internalversion/validation/validation.go.
    """
    watches = is_true(query, "watch")
    causes = _watch_causes(query) if watches else _list_causes(query)
    if causes:
        raise invalid_object("meta.k8s.io", "ListOptions", "", causes)


def _watch_causes(query: Mapping[str, str]) -> list[Cause]:
    match, causes = query.get(_MATCH, ""), []
    sends_initial = "sendInitialEvents" in query
    if sends_initial and match != _NOT_OLDER:
        detail = f"sendInitialEvents requires setting {_MATCH} to {_NOT_OLDER}"
        causes.append(forbidden_field(_MATCH, detail))
    if match:
        if not sends_initial:
            detail = f"{_MATCH} is forbidden for watch unless sendInitialEvents is"
            causes.append(forbidden_field(_MATCH, f"{detail} provided"))
        if match != _NOT_OLDER:
            causes.append(not_supported(_MATCH, shown(match), [_NOT_OLDER]))
        if query.get("continue"):
            causes.append(_match_with_continue())
    return causes


def _list_causes(query: Mapping[str, str]) -> list[Cause]:
    match, causes = query.get(_MATCH, ""), []
    version = query.get("resourceVersion", "")
    if match:
        if not version:
            detail = f"{_MATCH} is forbidden unless resourceVersion is provided"
            causes.append(forbidden_field(_MATCH, detail))
        if query.get("continue"):
            causes.append(_match_with_continue())
        if match not in ("Exact", _NOT_OLDER):
            known = ["Exact", _NOT_OLDER, ""]
            causes.append(not_supported(_MATCH, shown(match), known))
        if match == "Exact" and version == "0":
            detail = f'{_MATCH} "exact" is forbidden for resourceVersion "0"'
            causes.append(forbidden_field(_MATCH, detail))
    if "sendInitialEvents" in query:
        detail = "sendInitialEvents is forbidden for list"
        causes.append(forbidden_field("sendInitialEvents", detail))
    return causes


def _match_with_continue() -> Cause:
    return forbidden_field(_MATCH, f"{_MATCH} is forbidden when continue is provided")


def asks_for_dry_run(value: str | list[str] | None) -> bool:
    """Tell whether dryRun is All; raises Refusal for any other value."""
    if value in (None, "", []):
        return False
    if value in ("All", ["All"]):
        return True
    cause = not_supported("dryRun", shown(value), ("All",))
    raise invalid_object("meta.k8s.io", "Options", "", [cause])
