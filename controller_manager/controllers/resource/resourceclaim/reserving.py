"""Reserves a claim for its pods, one after the other."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from controller_manager.api.dynamicresources.v1 import (
    RESOURCE_CLAIMS,
    ClaimConsumer,
    ResourceClaim,
)
from controller_manager.api.meta import key_of, resource_version_number
from controller_manager.controllers.resource.resourceclaim.reservations import reserve
from controller_manager.controllers.resource.resourceclaim.writing import ClaimWriter
from controller_manager.runtime.context import ControllerContext


class _Turns(Struct):
    """How many workers reserve one claim, and the claim as the last has written it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    written: ResourceClaim | None = None


class Reserver:
    """Lets the workers of this process not contradict each other.

    Many pods may share a claim. If each worker wrote on top of the same version, all
    requests but one would be refused: upstream needs 1,500 for 200 pods.
    """

    def __init__(self, context: ControllerContext) -> None:
        """Take the cache of claims, and the client."""
        self._claims = context.lister(RESOURCE_CLAIMS)
        self._writer = ClaimWriter(context)
        self._turns: dict[str, _Turns] = {}

    async def reserve(
        self,
        claim: ResourceClaim,
        consumer: ClaimConsumer,
        is_needed: Callable[[], Awaitable[bool]],
    ) -> None:
        """Reserve a claim, if it still is to be when it is this worker's turn.

        `is_needed` asks the API server whether the pod still needs it. The turns are in
        the order of the calls. Raises Conflict if somebody else has changed the claim.
        """
        key = key_of(claim)
        turns = self._turns.setdefault(key, _Turns())
        turns.waiting += 1
        try:
            async with turns.lock:
                if not await is_needed():
                    return
                newest = _newest(self._claims.by_key(key), turns.written)
                fields = None if newest is None else reserve(newest, consumer)
                if newest is not None and fields is not None:
                    turns.written = await self._writer.set_status(newest, fields)
        finally:
            turns.waiting -= 1
            self.forget(key)

    def forget(self, key: str) -> None:
        """Drop what was written to a claim, once the cache shows it."""
        turns = self._turns.get(key)
        if turns is None or turns.waiting:
            return
        newest = _newest(self._claims.by_key(key), turns.written)
        if newest is None or newest is not turns.written:
            del self._turns[key]


def _newest(
    cached: ResourceClaim | None, written: ResourceClaim | None
) -> ResourceClaim | None:
    """Return the newer version of a claim; `None` once it is gone."""
    if cached is None or written is None:
        return cached
    is_same = cached.metadata.uid == written.metadata.uid
    return written if is_same and _version(written) > _version(cached) else cached


def _version(claim: ResourceClaim) -> int:
    return resource_version_number(claim.metadata.resource_version)
