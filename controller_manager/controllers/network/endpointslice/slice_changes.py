"""Tells which changes of slices need a sync (onEndpointSliceAdd and so on)."""

from collections.abc import Callable

from controller_manager.api.discovery.v1 import MANAGED_BY, EndpointSlice
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.control.endpoints.slices.index import service_key_of
from controller_manager.control.endpoints.slices.tracker import SliceTracker
from controller_manager.controllers.network.endpointslice.metadata import MANAGER
from controller_manager.informers.informer import Handler


def is_managed(each: EndpointSlice) -> bool:
    """Tell whether this controller manages a slice."""
    return labels_of(each).get(MANAGED_BY) == MANAGER


def slice_handler(
    tracker: SliceTracker, changed: Callable[[str], None]
) -> Handler[EndpointSlice]:
    """Return a handler that calls `changed` with the key of a service.

    It does so for changes that somebody else has made to slices that this controller
    manages, or managed.
    """

    def report(*slices: EndpointSlice) -> None:
        for key in dict.fromkeys(map(service_key_of, slices)):
            if key:
                changed(key)

    def added(new: EndpointSlice) -> None:
        if is_managed(new) and not tracker.is_own_write(new):
            report(new)

    def updated(old: EndpointSlice, new: EndpointSlice) -> None:
        if not is_managed(old) and not is_managed(new):
            return
        if not tracker.is_own_write(new) and _differ(old, new):
            report(old, new)

    def deleted(last: EndpointSlice) -> None:
        if not tracker.gone(last) and is_managed(last):
            report(last)

    return Handler(on_add=added, on_update=updated, on_delete=deleted)


def _differ(old: EndpointSlice, new: EndpointSlice) -> bool:
    """Tell whether more than annotations and owners has changed."""
    return (
        old.metadata.labels != new.metadata.labels
        or old.endpoints != new.endpoints
        or old.ports != new.ports
        or is_deleting(old) != is_deleting(new)
    )
