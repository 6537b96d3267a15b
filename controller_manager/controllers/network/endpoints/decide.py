"""Which Endpoints a service is to have (syncService of endpoints_controller.go)."""

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
from controller_manager.control.endpoints.addresses import is_headless
from controller_manager.control.endpoints.subsets import repack
from controller_manager.controllers.network.endpoints.capacity import truncate

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
    """Return the Endpoints to write, `None` if they are as they should be.

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
    """Tell whether subsets say the same, apart from the versions of the pods.

    The API server may store them in another order, or somebody may have written one
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
