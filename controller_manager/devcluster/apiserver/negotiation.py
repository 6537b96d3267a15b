"""The media types of requests and answers: the header Accept, and decoded bodies."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.scheme import decoding, protobuf, readers
from controller_manager.devcluster.scheme.models import DELETE_OPTIONS, built_in
from controller_manager.devcluster.scheme.protobuf_decoder import ProtobufError
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    not_acceptable,
    unsupported_media_type,
)

from .kind import Kind, Subresource
from .request_info import Target

# The header Accept: the encoding and the form of an answer.

JSON_TYPE: Final = "application/json"
YAML_TYPE: Final = "application/yaml"
PROTOBUF_TYPE: Final = protobuf.MEDIA_TYPE
_SERVED: Final = (JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE)
_SERVED_CUSTOM: Final = (JSON_TYPE, YAML_TYPE)
_META_VERSIONS: Final = ("v1", "v1beta1")


class Form(Enum):
    """The form of the objects in an answer."""

    FULL = "the objects themselves"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"
    TABLE = "Table"


_FORMS: Final = {form.value: form for form in Form if form is not Form.FULL}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The media type of an answer, and the form of its objects."""

    media_type: str = JSON_TYPE
    form: Form = Form.FULL


_ANYTHING: Final = Accepted()
_KNOWN: dict[str, Accepted] = {
    "": _ANYTHING,
    "*/*": _ANYTHING,
    JSON_TYPE: _ANYTHING,
    f"{JSON_TYPE}, */*": _ANYTHING,
    "*/*, application/json": _ANYTHING,
}
"""The headers that most clients send, which need no parsing."""


@dataclass(frozen=True, slots=True)
class _Clause:
    media_range: str
    parameters: dict[str, str]
    quality: float


def accepted(
    accept: str, *, has_tables: bool = True, has_protobuf: bool = True
) -> Accepted:
    """Return the first answer that an Accept header asks for and the server has.

    Clauses with a higher quality ``q`` go first. `has_tables` tells whether the objects
    can be shown as a table, `has_protobuf` whether they can be sent as protobuf: custom
    resources cannot, and neither can tables. Raises Refusal 406 if the header accepts
    no answer of the server.
    """
    if known := _KNOWN.get(accept):
        return known
    served = _SERVED if has_protobuf else _SERVED_CUSTOM
    for clause in _clauses(accept):
        for media_type in _SERVED:
            if not _is_in_range(media_type, clause.media_range):
                continue
            form = _form(clause.parameters)
            if form is None or (form is Form.TABLE and not has_tables):
                continue
            if media_type == PROTOBUF_TYPE and (
                form is Form.TABLE or (form is Form.FULL and not has_protobuf)
            ):
                continue
            return Accepted(media_type, form)
    message = f"only the following media types are accepted: {', '.join(served)}"
    raise not_acceptable(message)


def accepted_as(accept: str, group: str, version: str, kind: str) -> str:
    """Return the media type in which a header asks for this kind, if it does so first.

    The text is empty for a header that asks for another form before.
    """
    wanted = {"g": group, "v": version, "as": kind}
    for clause in _clauses(accept) if "as=" in accept else ():
        for media_type in _SERVED:
            if not _is_in_range(media_type, clause.media_range):
                continue
            given = {name: clause.parameters.get(name) for name in wanted}
            if given == wanted:
                return media_type
            if not any(given.values()):
                return ""
    return ""


def _clauses(accept: str) -> Iterator[_Clause]:
    found = []
    for text in accept.split(","):
        media_range, *rest = (part.strip() for part in text.split(";"))
        pairs = (part.partition("=") for part in rest if part)
        parameters = {name.strip(): value.strip() for name, _, value in pairs}
        quality = _quality(parameters.pop("q", ""))
        found.append(_Clause(media_range.lower(), parameters, quality))
    yield from sorted(found, key=lambda clause: -clause.quality)


def _quality(text: str) -> float:
    """Return the value of a parameter ``q``; a text that is no number counts as 1."""
    try:
        return float(text)
    except ValueError:
        return 1.0


def _is_in_range(media_type: str, media_range: str) -> bool:
    return media_range in (media_type, "application/*", "*/*")


def _form(parameters: dict[str, str]) -> Form | None:
    """Return the form in the parameters of a clause, `None` for unknown forms."""
    if parameters.get("stream", "watch") not in ("", "watch"):
        return None
    if not parameters.keys() & {"as", "g", "v"}:
        return Form.FULL
    group, version = parameters.get("g"), parameters.get("v")
    if group != "meta.k8s.io" or version not in _META_VERSIONS:
        return None
    return _FORMS.get(parameters.get("as", ""))


# Decodes the bodies of requests by their media types, and reads headers.

_YAML_TYPES: Final = (YAML_TYPE, "application/apply-patch+yaml")
_UNSTRUCTURED: Final = "Object 'Kind' is missing in 'unstructured object has no kind'"
"""The error for a custom resource in protobuf, whose type Go looks for in vain."""

_PARAMETER: Final = re.compile(r"\s*[^\s=]+=(\"[^\"]*\"|[^\s\"]+)\s*")
"""A parameter of a media type (mime.ParseMediaType of Go)."""

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _decode_json(body: bytes) -> Any:
    """Decode a body that must be JSON; raises Refusal 400."""
    try:
        return msgspec.json.decode(body)
    except _UNREADABLE:
        raise bad_request(decoding.go_json_error(body)) from None


async def with_read_yaml(request: Request) -> Request:
    """Read a large body of YAML in advance, in a thread beside the event loop."""
    body, content_type = request.body or b"", header(request.headers, "content-type")
    media_type = _media_type(content_type)
    if len(body) < decoding.LARGE or media_type not in _YAML_TYPES or _is_json(body):
        return request
    return replace(request, body=await asyncio.to_thread(decoding.ReadBody, body))


def _is_json(body: bytes) -> bool:
    """Tell whether a body is JSON, which is YAML, too."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except _UNREADABLE:
        return False
    return True


_KIND_OF_OBJECT: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)
"""The type that Go decodes to first, to find the kind of an object."""


class _Unrecognized(Exception):
    """A body that holds no object: the error of the decoder, and the body's start."""

    def __init__(self, why: object, start: str) -> None:
        super().__init__(str(why))
        self._start = start

    def as_object(self, wanted: str) -> Refusal:
        """Return the refusal of a body that has to hold an object of a kind."""
        return bad_request(
            f"the object provided is unrecognized (must be of type {wanted}): "
            f"{self} ({self._start})"
        )


def decode_object(body: bytes, content_type: str, wanted: str, version: str) -> JSON:
    """Decode a body by its content type, JSON if there is none; raises Refusal.

    `wanted` is the required kind, `version` its apiVersion. Upstream:
    transformDecodeError of endpoints/handlers/rest.go.
    """
    try:
        return _decode(body, content_type, wanted, version)
    except _Unrecognized as error:
        raise error.as_object(wanted) from None


def _decode(body: bytes, content_type: str, wanted: str, version: str) -> JSON:
    """Decode a body; raises Refusal and _Unrecognized."""
    media_type = _media_type(content_type)
    if media_type not in _SERVED:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types "
            f"include: {', '.join(_SERVED)}"
        )
    value: Any
    if media_type == YAML_TYPE:
        value = _decode_yaml(body)
    elif media_type == PROTOBUF_TYPE:
        value = _decode_protobuf(body, wanted, version)
    else:
        try:
            value = msgspec.json.decode(body)
        except _UNREADABLE:
            raise _no_json(body, decoding.go_json_error(body)) from None
    if not isinstance(value, dict):
        given = readers.go_kind(value, "struct")
        why = f"json: cannot unmarshal {given} into Go value of type {_KIND_OF_OBJECT}"
        raise _no_json(body, why)
    return value


def yaml_problems(value: JSON, body: bytes) -> list[str]:
    """Return the error of all keys that a body of YAML repeats, as the only item.

    `value` is the decoded body. Raises YAMLBodyError.
    """
    errors = (
        [] if readers.repeats_nothing(value, body) else decoding.repeated_keys(body)
    )
    return ["\n  ".join((decoding.YAML_ERRORS, *errors))] if errors else []


def decode_patch(body: bytes, content_type: str) -> tuple[Any, list[str]]:
    """Decode a patch, and return the problems in it; raises Refusal 400."""
    patch = _decode_json(body)
    found = _with_repeated(patch, body)
    if content_type == "application/json-patch+json":
        return patch, readers.json_patch_problems(found)
    return patch, readers.duplicates(found)


def _with_repeated(value: Any, body: bytes) -> Any:
    try:
        return readers.with_repeated(value, body)
    except RecursionError:
        raise bad_request("json: exceeded max depth") from None


def _no_json(body: bytes, why: str) -> _Unrecognized:
    start = body[:100].decode("utf-8", "replace")
    return _Unrecognized(f"couldn't get version/kind; json parse error: {why}", start)


def _decode_yaml(body: bytes) -> Any:
    """Decode YAML; try JSON first, which is a subset and much faster to read."""
    try:
        return msgspec.json.decode(body)
    except _UNREADABLE:
        pass  # the body is YAML that is not JSON
    try:
        return decoding.decode_yaml(body)
    except decoding.YAMLBodyError as error:
        raise bad_request(f"error converting YAML to JSON: yaml: {error}") from None


def _media_type(content_type: str) -> str:
    """Return the media type of a Content-Type; an empty text if it is malformed."""
    media_type, *parameters = content_type.split(";")
    if any(not _PARAMETER.fullmatch(each) for each in parameters if each.strip()):
        return ""
    return media_type.strip().lower() or JSON_TYPE


def _decode_protobuf(body: bytes, wanted: str, version: str) -> JSON:
    """Return the object in a body of protobuf; raises Refusal and _Unrecognized.

    The content of an object of another kind is left out, as it is refused anyway.
    """
    try:
        envelope = protobuf.Envelope(body, version, wanted)
    except ProtobufError as error:
        raise _Unrecognized(error, _summary(body)) from None
    models = built_in()
    known = models.find(envelope.version, envelope.kind)
    if known and envelope.kind != wanted:
        return {"apiVersion": envelope.version, "kind": envelope.kind}
    try:
        return envelope.decoded(models)
    except ProtobufError as error:
        is_custom = envelope.kind == wanted and not known
        why = _UNSTRUCTURED if is_custom else error
        short = envelope.version.rpartition("/")[2]
        raise bad_request(
            f'{envelope.kind} in version "{short}" cannot be handled as a {wanted}: '
            f"{why}"
        ) from None


def _summary(body: bytes) -> str:
    """Return the first bytes of a body (summarizeData of the same file)."""
    some = body[:30]
    shown = some.decode("utf-8", "replace") if some.startswith(b"{") else some.hex()
    return (shown or "<empty>") + (" ..." if len(body) > len(some) else "")


async def with_read_protobuf(request: Request, wanted: str, version: str) -> Request:
    """Return a request whose large body in protobuf was read in a thread, as JSON.

    A megabyte takes half a second. Other requests go on meanwhile. `wanted` is the
    required kind, `version` its apiVersion. Raises Refusal.
    """
    body = request.body or b""
    media_type = _media_type(header(request.headers, "content-type"))
    if len(body) < decoding.LARGE or media_type != PROTOBUF_TYPE:
        return request
    try:
        obj = await asyncio.to_thread(_decode_protobuf, body, wanted, version)
    except _Unrecognized as error:
        raise error.as_object(wanted) from None
    headers = {
        name: value
        for name, value in request.headers.items()
        if name.lower() != "content-type"
    }
    headers["content-type"] = "application/json"
    return replace(request, headers=headers, body=msgspec.json.encode(obj))


def parse_version(text: str) -> int:
    """Return a resourceVersion as a number; raises Refusal 400."""
    if not re.fullmatch(r"\d+", text):
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def header(headers: Mapping[str, str], name: str) -> str:
    """Return a header by its lower-case name; headers may be written in any case."""
    if (found := headers.get(name)) is not None:
        return found  # Try the lower-case name first: most headers have it
    for key, value in headers.items():
        if key.lower() == name:
            return value
    return ""


# The objects in the bodies of requests: their kind, their fields and their types.


def body_of(request: Request, kind: str, version: str, default: bytes = b"") -> JSON:
    """Return the object in the body of a request; raises Refusal."""
    content_type = header(request.headers, "content-type")
    return decode_object(request.body or default, content_type, kind, version)


def delete_options(request: Request) -> JSON:
    """Return the DeleteOptions in the body of a DELETE, which may have none.

    Go's typed clients send protobuf, other clients JSON; the content type says which.
    Unknown fields are ignored. Raises Refusal (handlers/delete.go).
    """
    if not request.body:
        return {}
    content_type = header(request.headers, "content-type")
    try:
        body = _decode(request.body, content_type, "DeleteOptions", "v1")
        return decoding.Decoder().decode(body, DELETE_OPTIONS)
    except (_Unrecognized, readers.TypeMismatch) as error:
        raise bad_request(str(error)) from None


def decoded_body(target: Target, request: Request) -> tuple[JSON, list[str]]:
    """Return the object of a body and its problems, as the request asks for them.

    The problems are fields that stand in it twice. Those of JSON are in the Repeated
    objects of the result, those of YAML are returned beside it.
    """
    kind, body = target.kind, request.body or b""
    value = body_of(request, kind.kind, kind.api_version)
    media_type = _media_type(header(request.headers, "content-type"))
    if target.field_validation == "Ignore" or media_type == PROTOBUF_TYPE:
        return value, []
    if media_type == YAML_TYPE:
        try:
            return value, yaml_problems(value, body)
        except decoding.YAMLBodyError:
            pass  # JSON with surrogates, which YAML does not have
    return _with_repeated(value, body), []


def checked_body(
    target: Target, body: JSON, problems: list[str], *, sorts: bool = False
) -> tuple[JSON, list[str]]:
    """Return the object of a body and all its problems; raises Refusal.

    Go sorts the fields of a patched object before it decodes it: `sorts` says so.
    """
    kind = target.kind
    obj, more = check_object(body, kind, kind.version)
    if sorts and kind.type_name:
        more.sort()
    problems = [*problems, *more]
    if problems and target.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(problems)}"
        raise bad_request(_cannot_handle(kind.kind, kind.version, why))
    return obj, problems


def check_object(obj: JSON, kind: Kind, version: str) -> tuple[JSON, list[str]]:
    """Check apiVersion, kind and types; return the object and its problems.

    The problems are its unknown and duplicate fields, in upstream's words.

    Raises Refusal 400 for an object of another kind or a value of a wrong type.
    """
    given_kind, given_version = obj.get("kind"), obj.get("apiVersion")
    if given_kind and given_kind != kind.kind:
        raise _other_kind(given_kind, version, kind)
    if given_version and given_version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({given_version}) does not match the "
            f"expected API version ({kind.api_version})"
        )
    try:
        return _decoded(obj, kind)
    except readers.TypeMismatch as error:
        raise bad_request(_cannot_handle(kind.kind, version, str(error))) from None


def _decoded(obj: JSON, kind: Kind) -> tuple[JSON, list[str]]:
    """Return an object as its type says, and its problems; raises TypeMismatch."""
    if (type_name := kind.type_name) is None:
        return kind.strategy.decoded(obj)
    decoder = decoding.Decoder()
    return decoder.decode(obj, type_name), decoder.problems


def _other_kind(given: str, version: str, wanted: Kind | Subresource) -> Refusal:
    package = wanted.group.partition(".")[0] or "core"
    return bad_request(
        f'{given} in version "{version}" cannot be handled as a {wanted.kind}: '
        f"converting ({version}.{given}) to ({package}.{wanted.kind}): "
        "unknown conversion"
    )


def check_connect_body(body: JSON, subresource: Subresource) -> JSON:
    """Return the body of a POST to a subresource; raises Refusal for a wrong type."""
    name, version = subresource.kind, subresource.version or "v1"
    if (given := body.get("kind") or name) != name:
        raise _other_kind(given, version, subresource)
    if (type_name := subresource.type_name) is None:
        return body
    try:
        return decoding.Decoder().decode(body, type_name)
    except readers.TypeMismatch as error:
        raise bad_request(_cannot_handle(name, version, str(error))) from None


def _cannot_handle(kind: str, version: str, why: str) -> str:
    return f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
