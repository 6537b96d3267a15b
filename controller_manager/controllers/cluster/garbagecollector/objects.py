"""Reads and writes the metadata of single objects (operations.go, patch.go)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.meta import OwnerReference, PartialObject, Resource
from controller_manager.client.rest.client import (
    Client,
    DeleteOptions,
    PatchType,
    PropagationPolicy,
)
from controller_manager.client.rest.errors import APIError, Conflict, NotFound, is_about
from controller_manager.runtime.outcome import SyncError

from .graph import GroupKind, Identity, has_finalizer, identity_of
from .monitors import Monitors

_CONFLICTS: Final = 5
"""Attempts of a write that meets conflicts."""


class UnknownKind(SyncError):
    """An owner or object is of a kind that the API server does not serve."""


class Objects:
    """Reads and writes objects of any kind that the monitors know as served.

    Every write carries the object's uid, so that it never changes another object of
    the same name.
    """

    def __init__(self, client: Client, monitors: Monitors) -> None:
        self._client = client
        self._monitors = monitors

    def is_namespaced(self, identity: Identity) -> bool:
        """Tell whether objects of that kind are in namespaces.

        Raises UnknownKind if the kind is not served.
        """
        return self._resource(identity).namespaced

    async def get(self, identity: Identity) -> PartialObject | None:
        """Return the object with this uid, by a quorum read; `None` if it is gone."""
        resource = self._resource(identity)
        try:
            found = await self._client.get(resource, identity.namespace, identity.name)
        except NotFound as error:
            _check_absence(error, identity)
            return None
        return found if found.metadata.uid == identity.uid else None

    async def dependents(self, kind: GroupKind, owner: Identity) -> list[Identity]:
        """Return all objects of a kind that have that owner, by quorum reads in pages.

        Returns none for a kind that is not served. Raises UnknownKind if its group
        could not be discovered yet: that says nothing about its objects.
        """
        served = [
            each
            for each in self._monitors.served.values()
            if (each.group, each.kind) == kind
        ]
        if not served:
            if kind[0] in self._monitors.undiscovered:
                msg = (
                    f"cannot tell whether {owner} has dependents of the group "
                    f'"{kind[0]}": its resources are not discovered yet'
                )
                raise UnknownKind(msg)
            return []
        best = next((each for each in served if each.is_preferred), served[0])
        resource = best.metadata_resource()
        return [
            identity_of(resource, found)
            async for page in self._client.list_all(resource, owner.namespace)
            for found in page.items
            if owner.uid in (each.uid for each in found.metadata.owner_references or ())
        ]

    async def delete(
        self, identity: Identity, latest: PartialObject, policy: PropagationPolicy
    ) -> None:
        """Delete an object unless its owners have changed since it was read.

        After other changes it is deleted at any version: one that is written all the
        time could not be deleted otherwise (deleteObject). Raises Conflict if the
        owners have changed; does nothing for an object that is gone.
        """
        version = latest.metadata.resource_version
        try:
            await self._delete(identity, policy, version)
        except Conflict:
            now = await self.get(identity)
            if now is None:
                return
            if now.metadata.owner_references != latest.metadata.owner_references:
                raise
            await self._delete(identity, policy, "")

    async def _delete(
        self, identity: Identity, policy: PropagationPolicy, version: str
    ) -> None:
        """Delete an object, at one version only unless `version` is empty."""
        options = DeleteOptions(
            propagation_policy=policy, uid=identity.uid, resource_version=version
        )
        _, _, namespace, name, _ = identity
        try:
            await self._client.delete(
                self._resource(identity), namespace, name, options
            )
        except NotFound as error:
            _check_absence(error, identity)

    async def drop_owners(
        self, identity: Identity, latest: PartialObject | None, uids: Iterable[str]
    ) -> None:
        """Remove owner references from an object; does nothing if it is gone.

        `latest` is the object as read, `None` if it was not read.
        """
        dropped = set(uids)
        references = [{"$patch": "delete", "uid": uid} for uid in sorted(dropped)]
        await self._patch_owners(
            identity,
            latest,
            references,
            lambda owners: [each for each in owners if each.uid not in dropped],
        )

    async def unblock(self, identity: Identity, latest: PartialObject) -> None:
        """Set blockOwnerDeletion to false in all owner references of an object."""
        owners = latest.metadata.owner_references or ()
        references = [
            {"uid": each.uid, "blockOwnerDeletion": False}
            for each in owners
            if each.block_owner_deletion
        ]
        if references:
            await self._patch_owners(
                identity,
                latest,
                references,
                lambda owners: [
                    replace(each, block_owner_deletion=False) for each in owners
                ],
            )

    async def _patch_owners(
        self,
        identity: Identity,
        latest: PartialObject | None,
        references: list[dict[str, Any]],
        changed: Callable[[Sequence[OwnerReference]], Sequence[OwnerReference]],
    ) -> None:
        """Patch the owner references; `changed` returns the whole list to write.

        Custom resources support merge patches only, which replace whole lists.
        """
        metadata = {"uid": identity.uid, "ownerReferences": references}
        try:
            await self._patch(identity, metadata, PatchType.STRATEGIC)
        except NotFound as error:
            _check_absence(error, identity)
        except APIError as error:
            if error.code != HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
                raise
            if (latest := latest or await self.get(identity)) is not None:
                owners = changed(latest.metadata.owner_references or ())
                await self._merge(identity, latest, "ownerReferences", owners)

    async def _merge(
        self,
        identity: Identity,
        latest: PartialObject,
        name: str,
        value: Sequence[object],
    ) -> None:
        """Replace a list of the metadata unless the object has changed since."""
        metadata = {
            "uid": identity.uid,
            "resourceVersion": latest.metadata.resource_version,
            name: value or None,
        }
        await self._patch(identity, metadata, PatchType.MERGE)

    async def _patch(
        self, identity: Identity, metadata: Mapping[str, Any], patch_type: PatchType
    ) -> None:
        await self._client.patch(
            self._resource(identity),
            identity.namespace,
            identity.name,
            {"metadata": metadata},
            patch_type,
        )

    async def drop_finalizer(self, identity: Identity, finalizer: str) -> None:
        """Remove a finalizer; does nothing if it or the object is gone."""
        for attempt in range(_CONFLICTS):
            latest = await self.get(identity)
            if latest is None or not has_finalizer(latest, finalizer):
                return
            present = latest.metadata.finalizers or ()
            kept = [each for each in present if each != finalizer]
            try:
                await self._merge(identity, latest, "finalizers", kept)
            except NotFound as error:
                _check_absence(error, identity)
                return
            except Conflict:
                if attempt == _CONFLICTS - 1:
                    raise
            else:
                return

    def _resource(self, identity: Identity) -> Resource[PartialObject]:
        served = self._monitors.served.get((identity.api_version, identity.kind))
        if served is None:
            msg = (
                f"the API server does not serve {identity.kind} of "
                f"{identity.api_version}, the kind of {identity.name}"
            )
            raise UnknownKind(msg)
        return served.metadata_resource()


def _check_absence(error: NotFound, identity: Identity) -> None:
    """Raise UnknownKind unless `error` is about this object.

    The API server also answers "not found" for a kind or version that it does not
    serve, or does not serve yet. That says nothing about the object.
    """
    if not is_about(error, identity.name):
        msg = f"cannot tell whether {identity} exists: {error}"
        raise UnknownKind(msg)
