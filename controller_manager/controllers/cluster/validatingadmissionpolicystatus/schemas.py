"""Reads the served kinds and their schemas from the API server.

Upstream has the schemas of Kubernetes' own kinds compiled in.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from controller_manager.api.admissionregistration.v1 import ValidatingAdmissionPolicy
from controller_manager.client.discovery.resource_mapper import ResourceMapper
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import ProtocolError, error_from_response
from controller_manager.control.cel.schemas import Schemas
from controller_manager.control.cel.types import Type

from . import kinds, type_checking


class Found(NamedTuple):
    """The kinds that a policy matches, and their types.

    `lacking` are kinds that the API server serves without a schema.
    """

    kinds: type_checking.Kinds
    lacking: Sequence[kinds.GroupVersionKind]


_MAX_AGE: Final = 1.0
"""The largest age of a discovery, in seconds; many policies may change at once."""


async def read_kinds(
    client: Client, resources: ResourceMapper, policy: ValidatingAdmissionPolicy
) -> Found:
    """Return the types of the kinds that a policy matches.

    Documents are not cached for the next policy, since they may change before it does.

    Raises APIError, TransportError or ProtocolError if the server does not answer.
    """
    reader = _Reader(client)
    served = (await resources.discovery(_MAX_AGE)).resources
    wanted = kinds.kinds_to_check(policy, served)
    types = {each: await reader.type_of(each) for each in wanted}
    objects = [(str(each), found) for each, found in types.items() if found]
    params = kinds.params_kind(policy)
    if params is not None and kinds.is_served(params, served):
        types[params] = await reader.type_of(params)
    type_of_params = types.get(params) if params is not None else None
    lacking = [each for each, type_ in types.items() if type_ is None]
    return Found(type_checking.Kinds(objects, type_of_params), lacking)


class _Reader:
    """Reads each document of OpenAPI once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._schemas: dict[str, Schemas | None] = {}

    async def type_of(self, kind: kinds.GroupVersionKind) -> Type | None:
        """Return the type of a kind, `None` if the server has no schema for it."""
        prefix = f"apis/{kind.group}" if kind.group else "api"
        path = f"/openapi/v3/{prefix}/{kind.version}"
        if path not in self._schemas:
            self._schemas[path] = await self._read(path)
        schemas = self._schemas[path]
        return schemas.type_of(*kind) if schemas is not None else None

    async def _read(self, path: str) -> Schemas | None:
        answer = await self._client.raw("GET", path, accept="application/json")
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.OK:
            raise error_from_response(
                answer.status, answer.body, None, answer.headers.get("location")
            )
        try:
            return Schemas(answer.body)
        except msgspec.DecodeError as error:
            msg = f"{path} is not a document of OpenAPI: {error}"
            raise ProtocolError(msg) from error
