"""The path ``/devcluster/snapshot``, for snapshots of a running cluster."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.responses import json_response
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    method_not_allowed,
    success,
)
from controller_manager.devcluster.storage import Storage, StorageState, state_of

from .snapshot import DataError, decode_snapshot, encode_snapshot

PATH: Final = "/devcluster/snapshot"
MEDIA_TYPE: Final = "application/x-ndjson"
KEEP_WATCHES: Final = ("watches", "keep")
"""The parameter of a PUT that keeps watches open."""

ADMINISTRATORS: Final = "system:masters"

_MAX_BODY: Final = 1 << 30
_OK: Final = 200


class Restoring(Protocol):
    """Restores a state in a running cluster."""

    def __call__(self, state: StorageState, *, ends_watches: bool) -> None:
        """Replace all objects by those of a state."""
        ...


class SnapshotEndpoint:
    """Answers GET with a snapshot, and restores the one in the body of a PUT.

    Only members of ``system:masters`` may do either; roles cannot allow it.
    """

    def __init__(self, storage: Storage, restore: Restoring) -> None:
        self._storage = storage
        self._restore = restore

    def body_limit(self, user: User) -> int:
        """Return the most bytes that a user may send, 0 for the default."""
        return _MAX_BODY if ADMINISTRATORS in user.groups else 0

    async def answer(
        self, request: Request, user: User
    ) -> Response | StreamingResponse:
        """Answer a request; raises Refusal."""
        if ADMINISTRATORS not in user.groups:
            message = (
                f'forbidden: User "{user.name}" cannot use path "{PATH}": only members '
                f"of {ADMINISTRATORS} may"
            )
            raise Refusal(403, "Forbidden", message, {})
        match request.method:
            case "GET":
                return _Snapshot(state_of(self._storage))
            case "PUT":
                return await self._restored(request)
        raise method_not_allowed()

    async def _restored(self, request: Request) -> Response:
        name, keep = KEEP_WATCHES
        if (wanted := dict(request.query).get(name, keep)) != keep:
            raise bad_request(f'{name} must be "{keep}", or absent, not "{wanted}"')
        try:
            # Decoding takes long for a large cluster; the cluster runs meanwhile.
            state = await asyncio.to_thread(decode_snapshot, request.body or b"")
        except DataError as error:
            message = f"the snapshot cannot be restored: {error}"
            raise bad_request(message) from error
        self._restore(state, ends_watches=KEEP_WATCHES not in request.query)
        return json_response(_OK, success(details={"objects": state.count}))


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot as an answer; the cluster runs between its pieces."""

    state: StorageState
    status: int = _OK
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"content-type": MEDIA_TYPE}
    )

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the pieces."""
        for piece in encode_snapshot(self.state):
            yield piece
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Do nothing: Python frees the state after the last reader."""
