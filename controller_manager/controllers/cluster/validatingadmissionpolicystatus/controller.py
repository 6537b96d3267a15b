"""Checks the expressions of policies, and writes the warnings into their status.

The schemas of the kinds are read from the API server; upstream has those of Kubernetes'
own kinds compiled in.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from controller_manager.api.admissionregistration.v1 import (
    VALIDATING_ADMISSION_POLICIES,
    ValidatingAdmissionPolicy,
)
from controller_manager.api.meta import key_of
from controller_manager.cel.schemas import Schemas
from controller_manager.cel.types import Type
from controller_manager.client.discovery.resource_mapper import ResourceMapper
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import ProtocolError, error_from_response
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For

from . import PolicyStatusOptions, type_checking


class Found(NamedTuple):
    """The kinds that a policy matches, and their types.

    `lacking` are kinds that the API server serves without a schema.
    """

    kinds: type_checking.Kinds
    lacking: Sequence[type_checking.GroupVersionKind]


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
    wanted = type_checking.kinds_to_check(policy, served)
    types = {each: await reader.type_of(each) for each in wanted}
    objects = [(str(each), found) for each, found in types.items() if found]
    params = type_checking.params_kind(policy)
    if params is not None and type_checking.is_served(params, served):
        types[params] = await reader.type_of(params)
    type_of_params = types.get(params) if params is not None else None
    lacking = [each for each, type_ in types.items() if type_ is None]
    return Found(type_checking.Kinds(objects, type_of_params), lacking)


class _Reader:
    """Reads each document of OpenAPI once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._schemas: dict[str, Schemas | None] = {}

    async def type_of(self, kind: type_checking.GroupVersionKind) -> Type | None:
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


FIELD_MANAGER: Final = "validatingadmissionpolicy-status-controller"
"""The manager of the status, in managedFields; upstream's."""

_ATTEMPTS: Final = 10
"""The number of attempts before a kind without a schema is left out.

The schema of a new custom resource comes after the resource. By default these attempts
take five seconds.
"""


class PolicyStatusReconciler(Reconciler[ValidatingAdmissionPolicy]):
    """Writes the checked generation of a policy, and the warnings about it.

    The status is written with server-side apply, as in upstream. So each of two
    managers removes the warnings of the other.
    """

    watches = (For(VALIDATING_ADMISSION_POLICIES),)
    queue_name = "validatingadmissionpolicy-status"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(PolicyStatusOptions).concurrent_syncs

    async def reconcile(self, policy: ValidatingAdmissionPolicy) -> Outcome:
        """Check a policy whose spec has changed since it was checked last."""
        metadata = policy.metadata
        if metadata.generation <= policy.status.observed_generation:
            return DONE
        found = await read_kinds(self.client, self.context.resources, policy)
        if found.lacking and self.queue.failures(key_of(policy)) < _ATTEMPTS:
            listed = ", ".join(map(str, found.lacking))
            msg = f"the API server has no schema yet of: {listed}"
            raise SyncError(msg)
        warnings = list(type_checking.warnings_of(policy.spec, found.kinds))
        status = {
            "observedGeneration": metadata.generation,
            "typeChecking": {"expressionWarnings": warnings} if warnings else {},
        }
        # The uid is a precondition: a later policy may have the same name.
        same = {"name": metadata.name, "uid": metadata.uid}
        config = {"metadata": same, "status": status}
        resource = VALIDATING_ADMISSION_POLICIES
        await self.client.apply(resource, config, FIELD_MANAGER, "status")
        return DONE
