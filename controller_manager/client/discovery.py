"""Which resources an API server serves."""

from http import HTTPStatus
from typing import Final

import msgspec

from controller_manager.api.meta import APIStruct
from controller_manager.client.client import Client
from controller_manager.client.errors import (
    ProtocolError,
    error_from_response,
)


class _APIResource(APIStruct, frozen=True):
    name: str = ""
    verbs: tuple[str, ...] = ()


class _APIResourceList(APIStruct, frozen=True):
    resources: tuple[_APIResource, ...] | None = None


_decoder: Final = msgspec.json.Decoder(_APIResourceList)


async def served_resources(client: Client, api_version: str) -> frozenset[str] | None:
    """Return the plural names that `api_version` serves, subresources too.

    `None` means that the group version is not served at all. Raises APIError,
    TransportError or ProtocolError when the server does not say.
    """
    root = "/apis" if "/" in api_version else "/api"
    answer = await client.raw("GET", f"{root}/{api_version}")
    if answer.status == HTTPStatus.NOT_FOUND:
        return None
    if answer.status != HTTPStatus.OK:
        raise error_from_response(answer.status, answer.body, None)
    try:
        found = _decoder.decode(answer.body)
    except msgspec.DecodeError as error:
        msg = f"the discovery document of {api_version} cannot be read: {error}"
        raise ProtocolError(msg) from error
    return frozenset(resource.name for resource in found.resources or ())
