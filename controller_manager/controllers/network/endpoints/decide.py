"""Decides which Endpoints a service should have (endpoints_controller.go).

Upstream: syncService, and truncateEndpoints, which leaves out addresses beyond 1,000.
"""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.endpoints import (
    MANAGED_BY,
    OVER_CAPACITY,
    EndpointAddress,
    Endpoints,
    EndpointSubset,
)
from controller_manager.api.core.services import (
    HEADLESS,
    LAST_CHANGE_TRIGGER_TIME,
    Service,
)
from controller_manager.api.meta import ObjectMeta, annotations_of, labels_of
from controller_manager.control.endpoints.pods import is_headless
from controller_manager.control.endpoints.subsets import repack

MANAGER: Final = "endpoint-controller"
"""The value of the label `MANAGED_BY`."""

TRUNCATED: Final = "truncated"
"""The value of the annotation `OVER_CAPACITY`."""


class View(Struct, frozen=True):
    """A service, the subsets that its pods make, its Endpoints, and the change's time.

    `current` is `None` if there are no Endpoints yet. `trigger_time` is empty if
    nothing has a new time.
    """

    service: Service
    backends: tuple[EndpointSubset, ...]
    current: Endpoints | None
    trigger_time: str = ""


def decide(view: View) -> Endpoints | None:
    """Return the Endpoints to write, `None` if the stored ones are right.

    A new trigger time alone is not written.
    """
    service, current = view.service, view.current
    subsets, is_truncated = truncate(view.backends)
    labels = _labels(service)
    if current is not None and (
        _is_same(current.subsets or (), subsets)
        and labels_of(current) == labels
        and _capacity_of(current) == (TRUNCATED if is_truncated else None)
    ):
        return None
    metadata = _metadata(service) if current is None else current.metadata
    annotations = dict(annotations_of(metadata))
    _set(annotations, LAST_CHANGE_TRIGGER_TIME, view.trigger_time)
    _set(annotations, OVER_CAPACITY, TRUNCATED if is_truncated else "")
    metadata = replace(metadata, labels=labels, annotations=annotations or None)
    return replace(current or Endpoints(), metadata=metadata, subsets=subsets or None)


def _metadata(service: Service) -> ObjectMeta:
    return ObjectMeta(name=service.metadata.name, namespace=service.metadata.namespace)


def _set(annotations: dict[str, str], name: str, value: str) -> None:
    if value:
        annotations[name] = value
    else:
        annotations.pop(name, None)


def _labels(service: Service) -> dict[str, str]:
    """Return the labels of the service, with those that are the controller's own."""
    labels = {**labels_of(service), MANAGED_BY: MANAGER}
    labels.pop(HEADLESS, None)
    if is_headless(service):
        labels[HEADLESS] = ""
    return labels


def _capacity_of(endpoints: Endpoints) -> str | None:
    return annotations_of(endpoints.metadata).get(OVER_CAPACITY)


def _is_same(
    stored: tuple[EndpointSubset, ...], wanted: tuple[EndpointSubset, ...]
) -> bool:
    """Tell whether subsets are equal, except for the versions of the pods.

    The API server may store them in another order, or a client may have written one
    subset as several.
    """
    if stored == wanted:
        return True
    unversioned = tuple(map(_without_versions, stored))
    if unversioned == wanted:
        return True
    return _ips(stored) == _ips(wanted) and repack(unversioned) == repack(wanted)


def _ips(subsets: tuple[EndpointSubset, ...]) -> set[str]:
    """Return all addresses: sets that differ make the comparison of subsets cheap."""
    return {
        each.ip
        for subset in subsets
        for each in (*(subset.addresses or ()), *(subset.not_ready_addresses or ()))
    }


def _without_versions(subset: EndpointSubset) -> EndpointSubset:
    return EndpointSubset(
        addresses=_unversioned(subset.addresses),
        not_ready_addresses=_unversioned(subset.not_ready_addresses),
        ports=subset.ports or None,
    )


def _unversioned(
    addresses: tuple[EndpointAddress, ...] | None,
) -> tuple[EndpointAddress, ...] | None:
    return (
        tuple(
            each
            if each.target_ref is None or not each.target_ref.resource_version
            else replace(each, target_ref=replace(each.target_ref, resource_version=""))
            for each in addresses or ()
        )
        or None
    )


CAPACITY: Final = 1000
"""The largest number of addresses of all subsets together; an address in two subsets
counts twice.
"""


def truncate(
    subsets: tuple[EndpointSubset, ...],
) -> tuple[tuple[EndpointSubset, ...], bool]:
    """Return subsets with at most `CAPACITY` addresses, and whether some are left out.

    Ready addresses stay first. If they do not all fit, each subset keeps its share of
    them; otherwise each keeps its share of those that are not ready. Shares are rounded
    up, so the last subset may keep less. A subset that keeps no address is left out:
    the API server would refuse it.
    """
    ready = sum(len(each.addresses or ()) for each in subsets)
    not_ready = sum(len(each.not_ready_addresses or ()) for each in subsets)
    if ready + not_ready <= CAPACITY:
        return subsets, False
    if ready > CAPACITY:
        addresses = _shares([each.addresses or () for each in subsets], CAPACITY)
        kept = [
            replace(each, addresses=some, not_ready_addresses=None)
            for each, some in zip(subsets, addresses, strict=True)
        ]
    else:
        room = CAPACITY - ready
        addresses = _shares([each.not_ready_addresses or () for each in subsets], room)
        kept = [
            replace(each, not_ready_addresses=some)
            for each, some in zip(subsets, addresses, strict=True)
        ]
    return tuple(each for each in kept if _has_addresses(each)), True


def _shares(
    lists: Sequence[tuple[EndpointAddress, ...]], room: int
) -> list[tuple[EndpointAddress, ...] | None]:
    """Return the first addresses of each list, as many as fit in all.

    Example: lists of 700 and 500 addresses for 1,000 places keep 584 (583.3 rounded
    up) and 416.
    """
    total, left = sum(map(len, lists)), room
    kept: list[tuple[EndpointAddress, ...] | None] = []
    for each in lists:
        # The order of the operations is upstream's: floats round the same way.
        share = min(math.ceil(len(each) / total * room), left)
        kept.append(each[:share] or None)
        left -= min(share, len(each))
    return kept


def _has_addresses(subset: EndpointSubset) -> bool:
    return bool(subset.addresses or subset.not_ready_addresses)
