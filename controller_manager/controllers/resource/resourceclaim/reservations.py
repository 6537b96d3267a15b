"""Reserves claims for consumers, and releases them (syncClaim of controller.go)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct, field

from controller_manager.api.dynamicresources.v1 import (
    DELETE_PROTECTION,
    RESOURCE_CLAIMS,
    ClaimConsumer,
    ResourceClaim,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting, key_of, resource_version_number
from controller_manager.client.rest.client import Client, PatchType
from controller_manager.runtime.context import ControllerContext

MOST_CONSUMERS: Final = 256
"""The largest number of consumers of a claim that an API server accepts."""


class Release(Struct, frozen=True):
    """The parts that a claim loses: consumers, its allocation, its finalizer."""

    status: JSON | None = None
    """The new fields of the status, `None` for no change."""
    drops_finalizer: bool = False


NOTHING: Final = Release()


def is_left_over(claim: ResourceClaim) -> bool:
    """Tell whether a claim has the finalizer although it is not allocated.

    A manager that ends between its two writes leaves such a claim, and a scheduler
    makes one before the allocation.
    """
    is_free = claim.status.allocation is None and not reserved_for(claim)
    return is_protected(claim) and is_free and not is_deleting(claim)


def reserved_for(claim: ResourceClaim) -> tuple[ClaimConsumer, ...]:
    """Return the consumers that a claim is reserved for."""
    return claim.status.reserved_for or ()


def is_protected(claim: ResourceClaim) -> bool:
    """Tell whether a claim has the finalizer of claims that have been allocated."""
    return DELETE_PROTECTION in (claim.metadata.finalizers or ())


def release(claim: ResourceClaim, is_gone: Callable[[ClaimConsumer], bool]) -> Release:
    """Return the parts that a claim loses; `is_gone` checks its consumers.

    A claim loses its allocation with its last consumer: the next one may get devices of
    another node. A claim that never had a consumer stays allocated until its deletion.
    """
    kept = [each for each in reserved_for(claim) if not is_gone(each)]
    is_allocated = claim.status.allocation is not None
    if len(kept) < len(reserved_for(claim)):
        status: JSON = {"reservedFor": [as_json(each) for each in kept] or None}
        deallocates = not kept and is_protected(claim)
        if deallocates:
            status["allocation"] = None
        return Release(status, drops_finalizer=deallocates)
    if kept or not (is_protected(claim) and is_deleting(claim)):
        return NOTHING
    return Release({"allocation": None} if is_allocated else None, drops_finalizer=True)


def reserve(claim: ResourceClaim, consumer: ClaimConsumer) -> JSON | None:
    """Return the fields of the status that reserve a claim, `None` for no change.

    Only an allocated claim is reserved, and for a limited number of consumers.
    """
    reserved = reserved_for(claim)
    is_full = len(reserved) >= MOST_CONSUMERS
    if claim.status.allocation is None or is_deleting(claim) or is_full:
        return None
    if any(each.uid == consumer.uid for each in reserved):
        return None
    return {"reservedFor": [as_json(each) for each in (*reserved, consumer)]}


def as_json(consumer: ClaimConsumer) -> JSON:
    """Return a consumer as an entry of a claim's status."""
    group = {"apiGroup": consumer.api_group} if consumer.api_group else {}
    about = {"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid}
    return {**group, **about}


def other_finalizers(claim: ResourceClaim) -> list[str] | None:
    """Return the finalizers of a claim without the finalizer of allocated claims."""
    others = claim.metadata.finalizers or ()
    return [each for each in others if each != DELETE_PROTECTION] or None


async def patch_claim(
    client: Client, claim: ResourceClaim, patch: JSON, subresource: str = ""
) -> ResourceClaim:
    """Patch a claim unless it has changed meanwhile; return the stored claim.

    Schedulers reserve claims at the same time.
    """
    how = (PatchType.MERGE, subresource)
    return await client.patch_exactly(
        RESOURCE_CLAIMS, claim, patch, *how, same_version=True
    )


class _Turns(Struct):
    """The number of workers that reserve one claim, and its last written version."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    written: ResourceClaim | None = None


class Reserver:
    """Lets only one worker at a time reserve a claim that many pods share.

    With one version, all requests but one would be refused: upstream needs 1,500
    requests for 200 pods.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._claims = context.lister(RESOURCE_CLAIMS)
        self._client = context.client
        self._turns: dict[str, _Turns] = {}

    async def reserve(
        self,
        claim: ResourceClaim,
        consumer: ClaimConsumer,
        is_needed: Callable[[], Awaitable[bool]],
    ) -> None:
        """Reserve a claim, if `is_needed` says so at the turn of this worker.

        The turns are in the order of the calls. Raises Conflict for a changed claim.
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
                    turns.written = await patch_claim(
                        self._client, newest, {"status": fields}, "status"
                    )
        finally:
            turns.waiting -= 1
            self.forget(key)

    def forget(self, key: str) -> None:
        """Drop the written version of a claim after the cache shows it."""
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
    stored, ours = cached.metadata.resource_version, written.metadata.resource_version
    is_newer = resource_version_number(ours) > resource_version_number(stored)
    return written if is_same and is_newer else cached
