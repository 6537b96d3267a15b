"""Replaces the hints of slices."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from controller_manager.api.discovery.v1 import Endpoint, EndpointHints, EndpointSlice
from controller_manager.control.endpoints.slices.actions import SliceActions

Hint = Callable[[Endpoint], EndpointHints | None]


def is_ready(endpoint: Endpoint) -> bool:
    """Tell whether an endpoint is ready; an unknown condition counts as not ready."""
    return endpoint.conditions.ready is True


def hinted(existing: EndpointSlice, hint: Hint) -> EndpointSlice:
    """Return a slice whose endpoints have the hints that `hint` returns."""
    endpoints = tuple(
        each if each.hints == (wanted := hint(each)) else replace(each, hints=wanted)
        for each in existing.endpoints or ()
    )
    return replace(existing, endpoints=endpoints)


def rehinted(
    changes: SliceActions, hint: Hint, must_change: Callable[[EndpointSlice], bool]
) -> SliceActions:
    """Return actions with new hints in all slices that are written.

    An unchanged slice is written if `must_change` returns True for it.
    """
    moved = [each for each in changes.unchanged if must_change(each)]
    unchanged = changes.unchanged
    if moved:
        unchanged = tuple(each for each in unchanged if each not in moved)
    return replace(
        changes,
        create=_all_hinted(changes.create, hint),
        update=_all_hinted((*changes.update, *moved), hint),
        unchanged=unchanged,
    )


def without_hints(
    changes: SliceActions, checked: frozenset[str] = frozenset()
) -> SliceActions:
    """Return actions that remove all hints (RemoveHintsFromSlices).

    The slices with the names `checked` are known to have no hints.
    """
    return rehinted(
        changes,
        lambda _: None,
        lambda each: each.metadata.name not in checked and _has_hints(each),
    )


def _has_hints(existing: EndpointSlice) -> bool:
    return any(each.hints is not None for each in existing.endpoints or ())


def _all_hinted(
    slices: Iterable[EndpointSlice], hint: Hint
) -> tuple[EndpointSlice, ...]:
    return tuple(hinted(each, hint) for each in slices)
