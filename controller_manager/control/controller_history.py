"""Controller revisions: the history of stateful sets and daemon sets.

Their data, names, numbers and order as values, and `History`, which reads, adopts and
writes the revisions of an owner. The data of a revision is a patch that replaces the
template of its owner. Upstream: pkg/controller/history/controller_history.go, and
getPatch of stateful_set_utils.go and of daemon/update.go.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from controller_manager.api import meta
from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, ControllerRevision
from controller_manager.api.core.pod_templates import (
    canonical_template,
    default_pod_spec,
    without_empty,
)
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.json_objects import JSON, object_at
from controller_manager.api.selectors import Selector
from controller_manager.client.events.recorder import WARNING
from controller_manager.client.rest import errors
from controller_manager.runtime.reconciler import Reconciler

from .controller_ref_manager import Claimer
from .creation_delays import REVISION_MUTATED, Mutation, Mutations, first_difference
from .hashes import fnv1, safe_encode

HASH_LABEL: Final = "controller.kubernetes.io/hash"
"""The label with the hash of a stateful set's revision."""

POD_REVISION_LABEL: Final = "controller-revision-hash"
"""The label of a pod that names the revision of its template.

Its value is the name of the revision for a stateful set, and the hash alone for a
daemon set. Revisions of daemon sets have the label, too.
"""

_LONGEST_PREFIX: Final = 223


def data_hash(data: Raw, collision_count: int | None) -> str:
    """Return the hash of a revision's data, in letters and digits without vowels.

    A `collision_count` changes the hash, because a revision with other data has the
    name already. The value is upstream's for the same bytes.
    """
    probe = b"" if collision_count is None else str(collision_count).encode()
    return safe_encode(fnv1(bytes(data) + probe))


def revision_name(owner: str, hash_text: str) -> str:
    """Return the name of a revision: the owner's name, shortened, and the hash."""
    return f"{owner[:_LONGEST_PREFIX]}-{hash_text}"


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """Return the revisions by number, age and name (SortControllerRevisions)."""

    def rank(each: ControllerRevision) -> tuple[int, str, str]:
        metadata = each.metadata
        # API servers write all times in one form: as texts they sort as in time.
        return each.revision, metadata.creation_timestamp or "", metadata.name

    return sorted(revisions, key=rank)


def next_number(revisions: Sequence[ControllerRevision]) -> int:
    """Return the number of a new revision; `revisions` are in order."""
    return revisions[-1].revision + 1 if revisions else 1


def oldest_unused(
    revisions: Iterable[ControllerRevision], in_use: Collection[str], count: int
) -> list[ControllerRevision]:
    """Return at most `count` revisions that are not `in_use`, the oldest first."""
    unused = [each for each in revisions if each.metadata.name not in in_use]
    return unused[: max(count, 0)]


_ESCAPES: Final = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
"""Characters that Go's encoder escapes; they occur only inside of strings."""

_LARGE: Final = re.compile(rb"\d{16}")
_EXACT: Final = 2**53
"""The largest number below which a floating-point number is exact."""


class _Spec(meta.APIStruct, frozen=True):
    template: PodTemplateSpec = PodTemplateSpec()


class _Patch(meta.APIStruct, frozen=True):
    spec: _Spec = _Spec()


def template_data(template: PodTemplateSpec) -> Raw:
    """Return the data of the revision that records a template."""
    # Upstream writes the same bytes for the same template, so each manager recognises
    # the revisions of the other.
    content: dict[str, Any] = {
        "$patch": "replace",
        "metadata": msgspec.to_builtins(template.metadata),
        "spec": msgspec.json.decode(template.spec),
    }
    encoded = msgspec.json.encode({"spec": {"template": content}}, order="sorted")
    for character, escape in _ESCAPES:
        encoded = encoded.replace(character, escape)
    return Raw(encoded)


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """Return the template of a revision; raise msgspec.DecodeError for other data."""
    return msgspec.json.decode(revision.data, type=_Patch).spec.template


def find_equal(
    revisions: Iterable[ControllerRevision], data: Raw
) -> ControllerRevision | None:
    """Return the last of the revisions that holds this data, `None` for none."""
    # The order of fields does not matter. Fields that are null or empty are ignored:
    # older API servers write ``creationTimestamp: null`` into templates. Quantities are
    # compared by their amounts. Upstream compares the bytes, so there another format of
    # a quantity makes another revision. Numbers above 2^53 are rounded before the
    # comparison, as upstream writes them.
    canonical: Any = None
    for revision in reversed(list(revisions)):
        if revision.data == data:
            return revision
        if canonical is None:
            canonical = canonical_data(data)
        if canonical_data(revision.data) == canonical:
            return revision
    return None


def is_equal_with_defaults(one: Raw, other: Raw) -> bool:
    """Tell whether the templates of two revisions differ only by defaults."""
    # One of them may lack fields that the API server fills in, because an older API
    # server has stored it (setMatchesLatestExistingRevision, stateful_set_control.go).
    first, second = (template_within(_decoded(each)) for each in (one, other))
    if first is None or second is None:
        return False
    return _with_defaults(first) == _with_defaults(second)


def _with_defaults(template: JSON) -> JSON:
    filled: JSON = without_empty(template)
    default_pod_spec(object_at(filled, "spec"))
    return canonical_template(filled)


def canonical_data(data: Raw) -> Any:  # noqa: ANN401 - any JSON value
    """Return the data of a revision in the form that all equal data share."""
    decoded = _decoded(data)
    template = template_within(decoded)
    if template is None:
        return without_empty(decoded)
    return {"spec": {"template": canonical_template(template)}}


def _decoded(data: Raw) -> Any:  # noqa: ANN401 - any JSON value
    """Return decoded data, with large numbers rounded as Go rounds them."""
    if _LARGE.search(data) is None:
        return msgspec.json.decode(data)
    return json.loads(bytes(data), parse_int=_as_go_reads)


def _as_go_reads(text: str) -> int | float:
    rounded = float(text)  # int refuses very long texts
    return int(text) if abs(rounded) <= _EXACT else rounded


def template_within(decoded: Any) -> JSON | None:  # noqa: ANN401 - any JSON
    """Return the template in the decoded data of a revision, `None` for other data."""
    match decoded:
        case {"spec": {"template": dict() as template, **others}, **more}:
            return None if others or more else template
    return None


OwnerT = TypeVar("OwnerT", bound=meta.CompleteObject)

MOST_COLLISIONS: Final = 16
"""After so many names in use, the creation fails and is retried."""


class Collision(Exception):
    """A revision with other data has the name of the one to create."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'controllerrevisions.apps "{name}" already exists with other data'
        )
        self.name = name


class History(Generic[OwnerT]):
    """The revisions of the owners of a reconciler, which declares that it owns them."""

    def __init__(self, reconciler: Reconciler[OwnerT]) -> None:
        self._client = reconciler.client
        self._owners = reconciler.resource
        self._lister = reconciler.lister(CONTROLLER_REVISIONS)
        self._recorder = reconciler.recorder
        self._queue = reconciler.queue
        self._mutations = Mutations(reconciler.clock)
        self._claimer = Claimer(self._client, self._owners, CONTROLLER_REVISIONS)

    def forget(self, key: str) -> None:
        """Drop the state of an owner that is gone."""
        self._mutations.forget(key)

    async def claim(
        self, owner: OwnerT, selector: Selector
    ) -> list[ControllerRevision]:
        """Return the owner's revisions in order; adopt orphans, release others.

        Raises AdoptionRefused if the owner is gone or being deleted.
        """
        found = self._lister.candidates(owner, selector)
        return in_order(await self._claimer.claim(owner, selector, found))

    def new(
        self,
        owner: OwnerT,
        data: Raw,
        number: int,
        hash_text: str,
        labels: Mapping[str, str],
    ) -> ControllerRevision:
        """Return a revision of `owner` with its annotations; it is not stored."""
        reference = meta.controller_reference(owner, self._owners)
        return ControllerRevision(
            metadata=meta.ObjectMeta(
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
        its pods for ever. Raises Collision if a revision with other data has the name.
        """
        if (mutated := await self._still_mutated(revision, owner)) is not None:
            return mutated
        metadata = revision.metadata
        try:
            stored = await self._client.create(CONTROLLER_REVISIONS, revision)
        except errors.AlreadyExists:
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
        # A dry run asks whether admission still would change it, with a growing delay.
        # The revision stays in use if that fails. Another template gets its own
        # revision.
        known = self._mutations.of(owner)
        if known is None or known.sent != _content_of(revision):
            return None
        stored = self._lister.get(owner.metadata.namespace, known.name)
        if stored is None or known.seconds > 0:
            return stored
        try:
            tried = await self._try(revision, owner)
        except (errors.APIError, errors.TransportError) as error:
            self._tell(owner, self._mutations.not_told(owner, known, error))
            return stored
        return stored if self._is_mutated(revision, tried, owner) else None

    async def _was_mutated(
        self, revision: ControllerRevision, stored: ControllerRevision, owner: OwnerT
    ) -> bool:
        # An earlier process may have created the stored one; a dry run tells.
        if not meta.is_controlled_by(stored, owner):
            return False
        try:
            tried = await self._try(revision, owner)
        except errors.BadRequest:
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
        self._tell(owner, found)
        return True

    def _tell(self, owner: OwnerT, mutation: Mutation) -> None:
        message = mutation.message
        self._recorder.event(self._owners, owner, WARNING, REVISION_MUTATED, message)
        self._queue.add_after(meta.key_of(owner), mutation.seconds)

    def has_current(self, owner: OwnerT) -> None:
        """Note that the revision of the owner's template is stored."""
        self._mutations.forget(meta.key_of(owner))

    async def create_renamed(
        self, revision: ControllerRevision, owner: OwnerT, collision_count: int
    ) -> tuple[ControllerRevision, int]:
        """Store a revision, under other names while its name is in use; count them.

        The name is made from the hash of the data and the count, which begins with that
        of the owner's status; the label with the hash does not change. Raises Collision
        after `MOST_COLLISIONS` names.
        """
        last = collision_count + MOST_COLLISIONS
        while True:
            digest = data_hash(revision.data, collision_count)
            name = revision_name(owner.metadata.name, digest)
            metadata = msgspec.structs.replace(revision.metadata, name=name)
            renamed = msgspec.structs.replace(revision, metadata=metadata)
            try:
                return await self.create(renamed, owner), collision_count
            except Collision:
                if collision_count == last:
                    raise
                collision_count += 1

    async def renumber(
        self, revision: ControllerRevision, number: int
    ) -> ControllerRevision:
        """Give a revision another number; raise Conflict if it has changed."""
        changed = msgspec.structs.replace(revision, revision=number)
        return await self._client.update(CONTROLLER_REVISIONS, changed)

    async def delete(self, revision: ControllerRevision) -> None:
        """Delete exactly this revision; a revision that is gone already is no error."""
        with suppress(errors.NotFound):
            await self._client.delete_exactly(CONTROLLER_REVISIONS, revision)


def _content_of(revision: ControllerRevision) -> str:
    return data_hash(revision.data, 0)
