"""Puts endpoints into slices and touches as few slices as possible.

All slices here have the same owner, address type and ports. Endpoints never move from
one slice to another, and half-empty slices are never merged: every slice that changes
is sent to every node (reconcileByPortMapping).
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import Struct

from controller_manager.api.discovery.v1 import Endpoint, EndpointSlice

from .identity import EndpointKey, is_up_to_date, key_of_endpoint
from .template import SliceTemplate


class SliceUsage(Struct, frozen=True):
    """The number of endpoints with the same ports, and the number of their slices."""

    endpoints: int
    slices: int


class Packing(Struct, frozen=True):
    """The writes of slices, and the numbers of added and removed endpoints."""

    create: tuple[EndpointSlice, ...]
    update: tuple[EndpointSlice, ...]
    delete: tuple[EndpointSlice, ...]
    unchanged: tuple[EndpointSlice, ...]
    added: int
    removed: int


class _Draft(Struct):
    """A slice, and the endpoints that it is to have."""

    existing: EndpointSlice
    endpoints: Sequence[Endpoint]
    has_changed: bool = False
    lost: int = 0

    @property
    def is_emptied(self) -> bool:
        """True if the slice has lost all its endpoints; it gets no others."""
        return not self.endpoints and bool(self.lost)


def pack(
    existing: Sequence[EndpointSlice],
    desired: Mapping[EndpointKey, Endpoint],
    template: SliceTemplate,
    limit: int,
    settled: Sequence[EndpointSlice] = (),
) -> Packing:
    """Return the changes by which the slices get the desired endpoints.

    `limit` is the largest number of endpoints of a slice. `settled` are slices that are
    known to have the template's metadata and only desired endpoints, all of them up to
    date; `desired` must not have their endpoints. Endpoints that no slice has yet go,
    in this order:

    1. into slices that change anyway, the fullest first;
    2. all of them into one other slice: the one that they fill best;
    3. into new slices.

    A slice without endpoints is deleted, even if a user emptied it.
    """
    missing = dict(desired)
    drafts = [_draft(each, missing, template) for each in existing]
    drafts += [_Draft(each, each.endpoints or ()) for each in settled]
    added = len(missing)
    _fill_changed(drafts, missing, limit)
    created = _place(drafts, missing, limit)
    filled = [each for each in drafts if each.endpoints]
    return Packing(
        create=tuple(template.make(each) for each in created),
        update=tuple(
            template.refill(each.existing, tuple(each.endpoints))
            for each in filled
            if each.has_changed
        ),
        delete=tuple(each.existing for each in drafts if not each.endpoints),
        unchanged=tuple(each.existing for each in filled if not each.has_changed),
        added=added,
        removed=sum(each.lost for each in drafts),
    )


def _draft(
    existing: EndpointSlice,
    missing: dict[EndpointKey, Endpoint],
    template: SliceTemplate,
) -> _Draft:
    """Return the endpoints that a slice keeps; remove them from the missing ones."""
    kept: list[Endpoint] = []
    has_changed = not template.has_metadata(existing)
    before = existing.endpoints or ()
    for endpoint in before:
        wanted = missing.pop(key_of_endpoint(endpoint), None)
        if wanted is not None:
            kept.append(wanted)
            has_changed = has_changed or not is_up_to_date(endpoint, wanted)
    lost = len(before) - len(kept)
    return _Draft(existing, kept, has_changed or lost > 0, lost)


def _fill_changed(
    drafts: Sequence[_Draft], missing: dict[EndpointKey, Endpoint], limit: int
) -> None:
    """Put missing endpoints into slices that change anyway, the fullest first."""
    changed = [each for each in drafts if each.has_changed and not each.is_emptied]
    for draft in sorted(changed, key=lambda each: -len(each.endpoints)):
        more = _take(missing, limit - len(draft.endpoints))
        draft.endpoints = (*draft.endpoints, *more)


def _place(
    drafts: Sequence[_Draft],
    missing: dict[EndpointKey, Endpoint],
    limit: int,
) -> list[tuple[Endpoint, ...]]:
    """Put the other endpoints into one unchanged slice; return those for new slices."""
    created: list[tuple[Endpoint, ...]] = []
    quiet = [each for each in drafts if not each.has_changed]
    while missing:
        draft = _best(quiet, len(missing), limit)
        if draft is None:
            created.append(tuple(_take(missing, limit)))
        else:
            more = _take(missing, len(missing))
            draft.endpoints = (*draft.endpoints, *more)
            draft.has_changed = True
    return created


def _best(quiet: Sequence[_Draft], count: int, limit: int) -> _Draft | None:
    """Return the slice that `count` more endpoints fill best (getSliceToFill).

    Return `None` if they fit into no slice, or if they fill a new one.
    """
    if count >= limit:
        return None
    room = [each for each in quiet if len(each.endpoints) + count <= limit]
    return max(room, key=lambda each: len(each.endpoints), default=None)


def _take(missing: dict[EndpointKey, Endpoint], count: int) -> list[Endpoint]:
    """Remove up to `count` endpoints from the missing ones, and return them."""
    keys = list(islice(missing, max(count, 0)))
    return [missing.pop(key) for key in keys]
