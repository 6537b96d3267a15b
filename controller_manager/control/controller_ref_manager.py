"""Adopts and releases the dependents of an owner (controller_ref_manager.go)."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from controller_manager.api.meta import (
    KubeObject,
    Resource,
    controller_of,
    controller_reference,
    is_deleting,
    labels_of,
)
from controller_manager.api.selectors import Selector
from controller_manager.client.rest.client import Client, PatchType
from controller_manager.client.rest.errors import Invalid, NotFound, gravest
from controller_manager.runtime.outcome import SyncError

OwnerT = TypeVar("OwnerT", bound=KubeObject)
DependentT = TypeVar("DependentT", bound=KubeObject)


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
        owner_resource: Resource[OwnerT],
        dependents: Resource[DependentT],
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
        attempt = _Attempt(self, owner, selector)
        claimed: list[DependentT] = []
        failures: list[Exception] = []
        for obj in objects:
            try:
                mine = await attempt.claim(obj)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)
                continue
            if mine is not None:
                claimed.append(mine)
        if failure := gravest(failures):
            raise failure
        return claimed

    async def adopt(self, owner: OwnerT, obj: DependentT) -> DependentT | None:
        """Make `owner` the controller of `obj`; `None` if the object is gone."""
        resource = self._owner_resource
        reference = controller_reference(owner, resource.api_version, resource.kind)
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
        metadata = {**changes, "uid": obj.metadata.uid}
        return await self._client.patch(
            self._dependents,
            obj.metadata.namespace,
            obj.metadata.name,
            {"metadata": metadata},
            PatchType.STRATEGIC,
        )

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
        if is_deleting(fresh):
            msg = f"{what} has just been deleted at {fresh.metadata.deletion_timestamp}"
            raise AdoptionRefused(msg)


class _Attempt(Generic[OwnerT, DependentT]):
    """One call of `Claimer.claim`; reads the owner again at most once."""

    def __init__(
        self, claimer: Claimer[OwnerT, DependentT], owner: OwnerT, selector: Selector
    ) -> None:
        self._claimer = claimer
        self._owner = owner
        self._selector = selector
        self._checked = False
        self._refusal: Exception | None = None

    async def claim(self, obj: DependentT) -> DependentT | None:
        reference = controller_of(obj)
        matches = self._selector.matches(labels_of(obj))
        if reference is None:
            return await self._adopt(obj) if matches else None
        if reference.uid != self._owner.metadata.uid:
            return None
        if matches:
            return obj
        if not is_deleting(self._owner):
            await self._claimer.release(self._owner, obj)
        return None

    async def _adopt(self, obj: DependentT) -> DependentT | None:
        if is_deleting(self._owner) or is_deleting(obj):
            return None
        if obj.metadata.namespace != self._owner.metadata.namespace:
            return None
        await self._check_once()
        return await self._claimer.adopt(self._owner, obj)

    async def _check_once(self) -> None:
        if not self._checked:
            self._checked = True
            try:
                await self._claimer.recheck(self._owner)
            except Exception as error:
                self._refusal = error
                raise
        elif self._refusal is not None:
            raise self._refusal
