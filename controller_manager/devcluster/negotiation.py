"""Bodies in and out: media types, JSON and YAML, forms of an answer."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec
import yaml

from controller_manager.devcluster import protobuf
from controller_manager.devcluster.kinds import Kind
from controller_manager.devcluster.schema import Checker, TypeMismatch
from controller_manager.devcluster.statuses import (
    Refusal,
    bad_request,
    unsupported_media_type,
)

JSON = dict[str, Any]

_BODY_TYPES: Final = (
    "application/json",
    "application/yaml",
    protobuf.MEDIA_TYPE,
)


_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Form(Enum):
    """In which form objects are wanted."""

    FULL = "the objects themselves"
    METADATA = "PartialObjectMetadata"
    TABLE = "Table"


def wanted_form(accept: str) -> Form:
    """Return the first form in an Accept header that can be had.

    Raises Refusal 406 if only others are accepted.
    """
    if "as=Table" not in accept and (not accept or "*/*" in accept):
        return Form.FULL
    for entry in accept.split(","):
        media_type, *parameters = (part.strip() for part in entry.split(";"))
        if media_type not in ("application/json", "application/yaml", "*/*"):
            continue
        options = dict(
            parameter.partition("=")[::2] for parameter in parameters if parameter
        )
        if "as" not in options:
            return Form.FULL
        if options.get("v") == "v1" and options.get("g") == "meta.k8s.io":
            if options["as"] == "Table":
                return Form.TABLE
            if options["as"].startswith("PartialObjectMetadata"):
                return Form.METADATA
    message = (
        "only the following media types are accepted: application/json, "
        "application/yaml"
    )
    raise Refusal(406, "NotAcceptable", message, {})


def decode_json(body: bytes) -> Any:
    """Decode a body that must be JSON; raises Refusal 400."""
    try:
        return msgspec.json.decode(body)
    except _UNREADABLE:
        raise bad_request(go_json_error(body)) from None


def decode_object(body: bytes, content_type: str, kind: Kind) -> JSON:
    """Decode the object in a request; raises Refusal for anything else."""
    return _decode(body, content_type, kind.kind)


def decode_delete_options(body: bytes | None, content_type: str) -> JSON | None:
    """Decode the DeleteOptions in the body of a DELETE; `None` if it has no body.

    Go's typed clients send protobuf, others JSON; the content type says which.
    Raises Refusal for anything else (handlers/delete.go).
    """
    return _decode(body, content_type, "DeleteOptions") if body else None


def _decode(body: bytes, content_type: str, wanted: str) -> JSON:
    """Decode a body by its content type, JSON if there is none; raises Refusal.

    `wanted` is the kind that messages name.
    """
    media_type = content_type.partition(";")[0].strip()
    if media_type and media_type not in _BODY_TYPES:
        message = (
            "the body of the request was in an unknown format - accepted media types "
            f"include: {', '.join(_BODY_TYPES)}"
        )
        raise unsupported_media_type(message)
    value: Any
    if media_type == "application/yaml":
        value = _decode_yaml(body)
    elif media_type == protobuf.MEDIA_TYPE:
        try:
            value = protobuf.decode_protobuf(body)
        except (protobuf.ProtobufError, UnicodeDecodeError) as error:
            raise unsupported_media_type(f"protobuf: {error}") from None
    else:
        try:
            value = msgspec.json.decode(body)
        except _UNREADABLE:
            raise bad_request(_unrecognized(body, wanted)) from None
    if not isinstance(value, dict):
        message = (
            f"the object provided is unrecognized (must be of type {wanted}): "
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            "into Go value of type struct"
        )
        raise bad_request(message)
    return value


def _unrecognized(body: bytes, wanted: str) -> str:
    shown = body[:100].decode("utf-8", "replace")
    return (
        f"the object provided is unrecognized (must be of type {wanted}): couldn't "
        f"get version/kind; json parse error: {go_json_error(body)} ({shown})"
    )


def _decode_yaml(body: bytes) -> Any:
    try:
        return yaml.safe_load(body)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "not valid YAML"
        message = f"error converting YAML to JSON: yaml: {problem}"
        raise bad_request(message) from None


_ENDINGS: Final = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting value", "looking for beginning of value"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Extra data", "after top-level value"),
    ("Invalid control character", "in string literal"),
    ("Illegal trailing comma", "looking for beginning of value"),
)


def go_json_error(body: bytes) -> str:
    """Return what encoding/json says about a body that is not JSON."""
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc):
            return "unexpected end of JSON input"
        character = error.doc[error.pos]
        ending = next(
            (text for start, text in _ENDINGS if error.msg.startswith(start)),
            "looking for beginning of value",
        )
        return f"invalid character '{character}' {ending}"
    except UnicodeDecodeError as error:
        return f"invalid character '\\x{body[error.start]:02x}' in string literal"
    except RecursionError:
        return "exceeded max depth"
    return "invalid JSON"


def check_object(obj: JSON, kind: Kind, version: str) -> tuple[JSON, list[str]]:
    """Check apiVersion, kind and types; return the object and unknown fields.

    Raises Refusal 400 for an object of another kind or a value of a wrong type.
    """
    given_kind, given_version = obj.get("kind"), obj.get("apiVersion")
    if given_kind and given_kind != kind.kind:
        package = kind.group.partition(".")[0] or "core"
        message = (
            f'{given_kind} in version "{version}" cannot be handled as a {kind.kind}: '
            f"converting ({version}.{given_kind}) to ({package}.{kind.kind}): "
            "unknown conversion"
        )
        raise bad_request(message)
    if given_version and given_version != kind.api_version:
        message = (
            f"the API version in the data ({given_version}) does not match the "
            f"expected API version ({kind.api_version})"
        )
        raise bad_request(message)
    if not kind.model:
        return obj, []
    checker = Checker()
    try:
        return checker.check(obj, kind.model), checker.unknown
    except TypeMismatch as error:
        raise bad_request(_cannot_handle(kind, version, str(error))) from None


def strict_error(kind: Kind, version: str, unknown: list[str]) -> Refusal:
    """Return the refusal of fields that do not exist."""
    fields = ", ".join(f'unknown field "{name}"' for name in unknown)
    return bad_request(
        _cannot_handle(kind, version, f"strict decoding error: {fields}")
    )


def _cannot_handle(kind: Kind, version: str, why: str) -> str:
    return (
        f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: {why}'
    )


# Continue tokens


def encode_continue(version: int, start: str) -> str:
    """Return the token with which a list goes on after `start`."""
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


def parse_version(text: str) -> int:
    """Return a resourceVersion as a number; raises Refusal 400."""
    if not re.fullmatch(r"\d+", text):
        message = (
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
        raise bad_request(message)
    return int(text)


def header(headers: Mapping[str, str], name: str) -> str:
    """Return a header by its lower-case name, however it was written."""
    for key, value in headers.items():
        if key.lower() == name:
            return value
    return ""
