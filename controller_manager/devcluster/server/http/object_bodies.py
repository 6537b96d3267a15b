"""The objects in the bodies of requests: their kind, their fields and their types."""

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.scheme.decoding import Decoder
from controller_manager.devcluster.scheme.models import DELETE_OPTIONS
from controller_manager.devcluster.scheme.readers import TypeMismatch
from controller_manager.devcluster.scheme.statuses import Refusal, bad_request
from controller_manager.devcluster.server.rest.kind import Kind, Subresource

from .negotiation import decode_object, decode_options, decode_strictly, header
from .request_info import Target


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
    body = decode_options(request.body, content_type, "DeleteOptions", "v1")
    try:
        return Decoder().decode(body, DELETE_OPTIONS)
    except TypeMismatch as error:
        raise bad_request(str(error)) from None


def decoded_body(target: Target, request: Request) -> tuple[JSON, list[str]]:
    """Return the object of a body and its problems, as the request asks for them."""
    kind = target.kind
    if target.field_validation == "Ignore":
        return body_of(request, kind.kind, kind.api_version), []
    content_type = header(request.headers, "content-type")
    body = request.body or b""
    return decode_strictly(body, content_type, kind.kind, kind.api_version)


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
        raise _strict_error(kind, kind.version, problems)
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
        message = (
            f"the API version in the data ({given_version}) does not match the "
            f"expected API version ({kind.api_version})"
        )
        raise bad_request(message)
    try:
        return _decoded(obj, kind)
    except TypeMismatch as error:
        raise bad_request(_cannot_handle(kind.kind, version, str(error))) from None


def _decoded(obj: JSON, kind: Kind) -> tuple[JSON, list[str]]:
    """Return an object as its type says, and its problems; raises TypeMismatch."""
    if (type_name := kind.type_name) is None:
        return kind.strategy.decoded(obj)
    decoder = Decoder()
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
        return Decoder().decode(body, type_name)
    except TypeMismatch as error:
        raise bad_request(_cannot_handle(name, version, str(error))) from None


def _strict_error(kind: Kind, version: str, problems: list[str]) -> Refusal:
    """Return the refusal of unknown and duplicate fields."""
    fields = ", ".join(problems)
    return bad_request(
        _cannot_handle(kind.kind, version, f"strict decoding error: {fields}")
    )


def _cannot_handle(kind: str, version: str, why: str) -> str:
    return f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
