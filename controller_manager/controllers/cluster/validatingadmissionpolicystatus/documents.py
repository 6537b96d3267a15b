"""Reads from the API server which kinds there are, and what fields they have.

Upstream has the schemas of Kubernetes' own kinds compiled in.
"""

from http import HTTPStatus

import msgspec

from controller_manager.api.admissionregistration.v1 import ValidatingAdmissionPolicy
from controller_manager.client.client import Client
from controller_manager.client.discovery import discover
from controller_manager.client.errors import ProtocolError, error_from_response
from controller_manager.control.cel.schemas import Schemas
from controller_manager.control.cel.types import Type
from controller_manager.controllers.cluster.validatingadmissionpolicystatus import (
    checking,
    targets,
)


async def read_kinds(
    client: Client, policy: ValidatingAdmissionPolicy
) -> checking.Kinds:
    """Return what the API server says of the kinds that a policy is about.

    A kind without a schema is left out. Nothing is kept for the next policy: a policy
    is checked when it changes, and the documents may have changed since.

    Raises APIError, TransportError or ProtocolError if the server does not answer.
    """
    reader = _Reader(client)
    found = targets.kinds_to_check(policy, (await discover(client)).resources)
    pairs = [(str(each), await reader.type_of(each)) for each in found]
    kind = targets.params_kind(policy)
    params = None if kind is None else await reader.type_of(kind)
    return checking.Kinds([(text, each) for text, each in pairs if each], params)


class _Reader:
    """Reads each document of OpenAPI once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._schemas: dict[str, Schemas | None] = {}

    async def type_of(self, kind: targets.GroupVersionKind) -> Type | None:
        """Return the type of a kind, `None` if the server has no schema of it."""
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
            raise error_from_response(answer.status, answer.body, None)
        try:
            return Schemas(answer.body)
        except msgspec.DecodeError as error:
            msg = f"{path} is not a document of OpenAPI: {error}"
            raise ProtocolError(msg) from error
