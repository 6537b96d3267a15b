"""Adopts and releases the dependents of an owner (controller_ref_manager.go)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from controller_manager.api import meta
from controller_manager.api.selectors import Selector
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import Invalid, NotFound, gravest
from controller_manager.runtime.outcome import SyncError

OwnerT = TypeVar("OwnerT", bound=meta.KubeObject)
DependentT = TypeVar("DependentT", bound=meta.KubeObject)


def _always(owner: object, obj: object) -> bool:
    del owner, obj
    return True


class AdoptionRefused(SyncError):
    """The owner that was about to adopt is gone or is being deleted."""


class Claimer(Generic[OwnerT, DependentT]):
    """Makes an owner the controller of exactly those objects that it selects.

    Orphans that match are adopted; the owner's dependents that no longer match are
    released; objects with another controller are left alone. Before the first
    adoption the owner is read again from the API server: if an owner that is already
    being deleted adopted an object, the garbage collector would delete that object
    (kubernetes#42639). Every patch carries the dependent's uid, so that it never
    changes another object of the same name.
    """

    def __init__(
        self,
        client: Client,
        owner_resource: meta.Resource[OwnerT],
        dependents: meta.Resource[DependentT],
        finalizer: str = "",
        needs_finalizer: Callable[[OwnerT, DependentT], bool] = _always,
    ) -> None:
        """Take the client, and the resources of the owner and of its dependents.

        An adopted object that `needs_finalizer` accepts gets the `finalizer`, and a
        released object loses it.
        """
        self._client = client
        self._owner_resource = owner_resource
        self._dependents = dependents
        self._finalizer = finalizer
        self._needs_finalizer = needs_finalizer

    async def claim(
        self, owner: OwnerT, selector: Selector, objects: Sequence[DependentT]
    ) -> list[DependentT]:
        """Return those objects that the owner controls from now on."""
        # Tries all objects before it raises the gravest failure.
        claimed: list[DependentT] = []
        failures: list[Exception] = []
        check_once = self._check_once(owner)
        for obj in objects:
            try:
                mine = await self._claim(owner, selector, obj, check_once)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)
                continue
            if mine is not None:
                claimed.append(mine)
        if failure := gravest(failures):
            raise failure
        return claimed

    async def _claim(
        self,
        owner: OwnerT,
        selector: Selector,
        obj: DependentT,
        check_once: Callable[[], Awaitable[None]],
    ) -> DependentT | None:
        reference, matches = (
            meta.controller_of(obj),
            selector.matches(meta.labels_of(obj)),
        )
        if reference is not None:
            if reference.uid != owner.metadata.uid:
                return None
            if not matches and not meta.is_deleting(owner):
                await self.release(owner, obj)
            return obj if matches else None
        if not matches or meta.is_deleting(owner) or meta.is_deleting(obj):
            return None
        if obj.metadata.namespace != owner.metadata.namespace:
            return None
        await check_once()
        return await self.adopt(owner, obj)

    def _check_once(self, owner: OwnerT) -> Callable[[], Awaitable[None]]:
        """Return `recheck` for the owner, which is asked for at most once."""
        outcome: list[Exception | None] = []

        async def check() -> None:
            if not outcome:
                try:
                    await self.recheck(owner)
                except Exception as error:  # noqa: BLE001 - raised below
                    outcome.append(error)
                else:
                    outcome.append(None)
            if (refusal := outcome[0]) is not None:
                raise refusal

        return check

    async def adopt(self, owner: OwnerT, obj: DependentT) -> DependentT | None:
        """Make `owner` the controller of `obj`; `None` if the object is gone."""
        reference = meta.controller_reference(owner, self._owner_resource)
        changes: dict[str, Any] = {"ownerReferences": [msgspec.to_builtins(reference)]}
        if self._finalizer and self._needs_finalizer(owner, obj):
            changes["finalizers"] = [self._finalizer]
        try:
            return await self._patch(obj, changes)
        except NotFound:
            return None

    async def release(self, owner: OwnerT, obj: DependentT) -> None:
        """Remove the owner reference to `owner` from `obj`."""
        reference = {"$patch": "delete", "uid": owner.metadata.uid}
        changes: dict[str, Any] = {"ownerReferences": [reference]}
        if self._finalizer:
            changes["$deleteFromPrimitiveList/finalizers"] = [self._finalizer]
        try:
            await self._patch(obj, changes)
        except (NotFound, Invalid):
            # The object is gone, has another uid, or has no owners any more. In each
            # case there is nothing left to release.
            return

    async def _patch(self, obj: DependentT, changes: dict[str, Any]) -> DependentT:
        patch = {"metadata": changes}
        return await self._client.patch_exactly(self._dependents, obj, patch)

    async def recheck(self, owner: OwnerT) -> None:
        """Raise AdoptionRefused if the owner is gone or is being deleted, by a read."""
        metadata = owner.metadata
        what = f"{self._owner_resource.kind} {metadata.namespace}/{metadata.name}"
        fresh = await self._client.get(
            self._owner_resource, metadata.namespace, metadata.name
        )
        if fresh.metadata.uid != metadata.uid:
            msg = (
                f"original {what} is gone: got uid {fresh.metadata.uid}, "
                f"wanted {metadata.uid}"
            )
            raise AdoptionRefused(msg)
        if meta.is_deleting(fresh):
            msg = f"{what} has just been deleted at {fresh.metadata.deletion_timestamp}"
            raise AdoptionRefused(msg)
