"""Reads, adopts and writes the revisions of an owner."""

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, ControllerRevision
from controller_manager.api.meta import (
    CompleteObject,
    ObjectMeta,
    controller_reference,
    is_controlled_by,
    key_of,
)
from controller_manager.api.resource import Resource
from controller_manager.api.selectors import Selector
from controller_manager.client.rest.client import Client, DeleteOptions
from controller_manager.client.rest.errors import (
    AlreadyExists,
    APIError,
    BadRequest,
    NotFound,
    TransportError,
)
from controller_manager.control.claims import Claimer
from controller_manager.control.mutations import Mutation, Mutations, first_difference
from controller_manager.informers.lister import Lister

from .names import data_hash, revision_name
from .order import in_order
from .template import find_equal

OwnerT = TypeVar("OwnerT", bound=CompleteObject)

OnMutation = Callable[[OwnerT, Mutation], None]
"""Called when admission has changed, or would change, a revision of an owner."""

MOST_COLLISIONS: Final = 16
"""After so many names in use, the creation fails and is retried."""


class Created(Struct, frozen=True):
    """The revision that holds the wanted data, and the number of collisions."""

    revision: ControllerRevision
    collision_count: int


class Collision(Exception):
    """A revision with other data has the name of the one to create."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'controllerrevisions.apps "{name}" already exists with other data'
        )
        self.name = name


class History(Generic[OwnerT]):
    """The revisions of the owners of one resource.

    The lister needs the indexes that ``Owns(CONTROLLER_REVISIONS)`` makes.
    """

    def __init__(
        self,
        client: Client,
        owners: Resource[OwnerT],
        lister: Lister[ControllerRevision],
        mutations: Mutations,
        on_mutation: OnMutation[OwnerT],
    ) -> None:
        """Take the client, the resource of the owners and the revisions' lister.

        `mutations` has the owners whose revisions admission changes.
        """
        self._mutations = mutations
        self._on_mutation = on_mutation
        self._client = client
        self._owners = owners
        self._lister = lister
        self._claimer = Claimer(client, owners, CONTROLLER_REVISIONS)

    async def claim(
        self, owner: OwnerT, selector: Selector
    ) -> list[ControllerRevision]:
        """Return the owner's revisions in order; adopt orphans, release others.

        Raises AdoptionRefused if the owner is gone or being deleted, and the errors of
        the client.
        """
        mine = self._lister.controlled_by(owner)
        orphans = self._lister.orphans(owner.metadata.namespace, selector)
        return in_order(await self._claimer.claim(owner, selector, (*mine, *orphans)))

    def new(
        self,
        owner: OwnerT,
        data: Raw,
        number: int,
        hash_text: str,
        labels: Mapping[str, str],
    ) -> ControllerRevision:
        """Return a revision of `owner` that is not stored yet.

        It has the annotations of the owner, as in upstream.
        """
        resource = self._owners
        reference = controller_reference(owner, resource.api_version, resource.kind)
        return ControllerRevision(
            metadata=ObjectMeta(
                name=revision_name(owner.metadata.name, hash_text),
                namespace=owner.metadata.namespace,
                labels=dict(labels),
                annotations=owner.metadata.annotations or None,
                owner_references=(reference,),
            ),
            data=data,
            revision=number,
        )

    async def create(
        self, revision: ControllerRevision, owner: OwnerT
    ) -> ControllerRevision:
        """Store a revision, or return the stored revision of this name and data.

        If admission changes the data, that revision is returned, and again by later
        calls: otherwise each sync would create another one, and the owner would replace
        its pods for ever. Raises Collision if a revision with other data has the name,
        and the errors of the client.
        """
        if (mutated := await self._still_mutated(revision, owner)) is not None:
            return mutated
        metadata = revision.metadata
        try:
            stored = await self._client.create(CONTROLLER_REVISIONS, revision)
        except AlreadyExists:
            stored = await self._client.get(
                CONTROLLER_REVISIONS, metadata.namespace, metadata.name
            )
        else:
            self._is_mutated(revision, stored, owner)
            return stored
        if find_equal((stored,), revision.data) is not None:
            return stored
        if await self._was_mutated(revision, stored, owner):
            return stored
        raise Collision(metadata.name)

    async def _still_mutated(
        self, revision: ControllerRevision, owner: OwnerT
    ) -> ControllerRevision | None:
        """Return the revision that admission has changed, if it still would.

        A dry run asks for that, with a growing delay. The revision stays in use if the
        dry run fails. Another template gets its own revision.
        """
        known = self._mutations.of(owner)
        if known is None or known.sent != _content_of(revision):
            return None
        stored = self._lister.get(owner.metadata.namespace, known.name)
        if stored is None or known.seconds > 0:
            return stored
        try:
            tried = await self._try(revision, owner)
        except (APIError, TransportError) as error:
            again = self._mutations.not_told(owner, known, error)
            self._on_mutation(owner, again)
            return stored
        return stored if self._is_mutated(revision, tried, owner) else None

    async def _was_mutated(
        self, revision: ControllerRevision, stored: ControllerRevision, owner: OwnerT
    ) -> bool:
        """Tell whether admission has made a stored revision from this one.

        An earlier process has created it; this one asks by a dry run.
        """
        if not is_controlled_by(stored, owner):
            return False
        try:
            tried = await self._try(revision, owner)
        except BadRequest:
            return False  # a webhook of the cluster allows no dry runs
        if find_equal((stored,), tried.data) is None:
            return False
        return self._is_mutated(revision, stored, owner)

    async def _try(
        self, revision: ControllerRevision, owner: OwnerT
    ) -> ControllerRevision:
        """Return what admission makes of a revision, whose name cannot be in use."""
        unnamed = msgspec.structs.replace(
            revision.metadata, name="", generate_name=f"{owner.metadata.name}-"
        )
        trial = msgspec.structs.replace(revision, metadata=unnamed)
        return await self._client.try_create(CONTROLLER_REVISIONS, trial)

    def _is_mutated(
        self, sent: ControllerRevision, stored: ControllerRevision, owner: OwnerT
    ) -> bool:
        """Tell whether admission has changed the data, and report it."""
        if find_equal((stored,), sent.data) is not None:
            self.has_current(owner)
            return False
        before, after = map(msgspec.json.decode, (sent.data, stored.data))
        field = first_difference(before, after, "data")
        found = self._mutations.found(
            owner, stored.metadata.name, field, _content_of(sent)
        )
        self._on_mutation(owner, found)
        return True

    def has_current(self, owner: OwnerT) -> None:
        """Note that the revision of the owner's template is stored."""
        self._mutations.forget(key_of(owner))

    async def create_renamed(
        self, revision: ControllerRevision, owner: OwnerT, collision_count: int
    ) -> Created:
        """Store a revision; try other names while its name is in use.

        `collision_count` is that of the owner's status. The name is made from the hash
        of the data and the count; the label with the hash does not change. Raises
        Collision after `MOST_COLLISIONS` names, and the errors of the client.
        """
        last = collision_count + MOST_COLLISIONS
        while True:
            digest = data_hash(revision.data, collision_count)
            name = revision_name(owner.metadata.name, digest)
            metadata = msgspec.structs.replace(revision.metadata, name=name)
            renamed = msgspec.structs.replace(revision, metadata=metadata)
            try:
                return Created(await self.create(renamed, owner), collision_count)
            except Collision:
                if collision_count == last:
                    raise
                collision_count += 1

    async def renumber(
        self, revision: ControllerRevision, number: int
    ) -> ControllerRevision:
        """Give a stored revision another number; return it as stored.

        Raises Conflict if the revision has changed, and the errors of the client.
        """
        changed = msgspec.structs.replace(revision, revision=number)
        return await self._client.update(CONTROLLER_REVISIONS, changed)

    async def delete(self, revision: ControllerRevision) -> None:
        """Delete exactly this revision; a revision that is gone already is no error."""
        metadata = revision.metadata
        options = DeleteOptions(uid=metadata.uid)
        try:
            await self._client.delete(
                CONTROLLER_REVISIONS, metadata.namespace, metadata.name, options
            )
        except NotFound:
            return


def _content_of(revision: ControllerRevision) -> str:
    """Return a short text that stands for the data of a revision."""
    return data_hash(revision.data, 0)
