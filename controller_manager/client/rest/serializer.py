"""The bytes of requests and answers, and the media types that are asked for."""

from collections.abc import Mapping
from functools import cache
from typing import Final, TypeVar

import msgspec

from controller_manager.api.meta import CompleteObject, KubeObject
from controller_manager.api.nulls import Decoder
from controller_manager.api.resource import AnyResource

from .errors import ProtocolError
from .transport import Response

DecodedT = TypeVar("DecodedT")

JSON: Final = {"accept": "application/json", "content-type": "application/json"}
APPLY_PATCH: Final = "application/apply-patch+yaml"
_METADATA: Final = {
    "accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json",
    "content-type": "application/json",
}
METADATA_LIST: Final = {
    "accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
    "application/json",
}


@cache
def _decoder(object_type: type[DecodedT]) -> Decoder[DecodedT]:
    return Decoder(object_type)


def decode(object_type: type[DecodedT], answer: Response) -> DecodedT:
    """Return the object in an answer, with null as Go reads it.

    Raises ProtocolError.
    """
    # mypy takes no type object for Hashable (its issue 11469).
    decoder: Decoder[DecodedT] = _decoder(object_type)  # type: ignore[arg-type]
    try:
        return decoder.decode(answer.body)
    except msgspec.DecodeError as error:
        raise unreadable(error) from error


def unreadable(error: msgspec.DecodeError) -> ProtocolError:
    """Return the error for an answer that cannot be decoded."""
    return ProtocolError(f"the API server's answer cannot be read: {error}")


def headers_of(resource: AnyResource) -> Mapping[str, str]:
    """Return the headers of requests whose answer is one object of a resource."""
    return _METADATA if resource.metadata_only else JSON


def encode(resource: AnyResource, obj: CompleteObject) -> bytes:
    """Return a request body; raises TypeError unless `obj` is complete."""
    require_complete(obj)
    if not obj.kind:
        obj = msgspec.structs.replace(
            obj, api_version=resource.api_version, kind=resource.kind
        )
    return msgspec.json.encode(obj)


def require_complete(obj: KubeObject) -> None:
    """Raise TypeError for a projection, if the type checker has not found it."""
    if not isinstance(obj, CompleteObject):
        name = type(obj).__name__
        msg = (
            f"{name} is a projection: a PUT would delete the fields that it lacks; "
            "patch the object, or create it from bytes"
        )
        raise TypeError(msg)
