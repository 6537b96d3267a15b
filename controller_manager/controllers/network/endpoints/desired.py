"""The Endpoints that a service should have; pure.

Upstream: syncService, addEndpointSubset and truncateEndpoints of
pkg/controller/endpoint/endpoints_controller.go.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.services import (
    HEADLESS,
    LAST_CHANGE_TRIGGER_TIME,
    MANAGED_BY,
    OVER_CAPACITY,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    Service,
)
from controller_manager.api.core.v1 import PODS, ObjectReference, Pod
from controller_manager.api.discovery.v1 import IPV6
from controller_manager.api.meta import ObjectMeta, annotations_of, labels_of
from controller_manager.control.endpoints.pods import (
    address_types_of,
    addresses_of,
    belongs_in_endpoints,
    find_port,
    has_hostname,
    has_no_ports,
    is_headless,
    takes_traffic,
)
from controller_manager.control.endpoints.subsets import Offers, repack

MANAGER: Final = "endpoint-controller"
"""The value of the label `MANAGED_BY`."""

TRUNCATED: Final = "truncated"
"""The value of the annotation `OVER_CAPACITY`."""

CAPACITY: Final = 1000
"""The largest number of addresses of all subsets together; an address in two subsets
counts twice.
"""


def desired_endpoints(
    service: Service, pods: Iterable[Pod], current: Endpoints | None, trigger_time: str
) -> Endpoints | None:
    """Return the Endpoints to write, `None` if the stored ones are right.

    `pods` are those of the service, and `current` is `None` if there are no Endpoints
    yet. `trigger_time` is empty if nothing has a new time. A new one alone is not
    written.
    """
    subsets, is_truncated = truncate(subsets_of(service, pods))
    labels, capacity = _labels(service), TRUNCATED if is_truncated else None
    if current is not None and (
        _is_same(current.subsets or (), subsets)
        and labels_of(current) == labels
        and annotations_of(current.metadata).get(OVER_CAPACITY) == capacity
    ):
        return None
    own = service.metadata
    metadata = ObjectMeta(name=own.name, namespace=own.namespace)
    if current is not None:
        metadata = current.metadata
    annotations = dict(annotations_of(metadata))
    _set(annotations, LAST_CHANGE_TRIGGER_TIME, trigger_time)
    _set(annotations, OVER_CAPACITY, capacity or "")
    metadata = replace(metadata, labels=labels, annotations=annotations or None)
    return replace(current or Endpoints(), metadata=metadata, subsets=subsets or None)


def subsets_of(service: Service, pods: Iterable[Pod]) -> tuple[EndpointSubset, ...]:
    """Return the subsets that pods make; a pod without a port adds no address."""
    offers = Offers()
    include_terminating = service.spec.publish_not_ready_addresses
    without_ports = has_no_ports(service)
    for pod in pods:
        if not belongs_in_endpoints(pod, include_terminating=include_terminating):
            continue
        ports = tuple(_ports(service, pod))
        if not ports and not without_ports:
            continue
        if (address := _address(service, pod)) is not None:
            offers.add(address, ports, ready=takes_traffic(pod, service))
    return offers.subsets()


def _ports(service: Service, pod: Pod) -> Iterator[EndpointPort]:
    for each in service.spec.ports or ():
        if (number := find_port(pod, each)) is not None:
            yield EndpointPort(
                name=each.name,
                port=number,
                protocol=each.protocol,
                app_protocol=each.app_protocol,
            )


def _address(service: Service, pod: Pod) -> EndpointAddress | None:
    """Return the pod's address of the service's first family, `None` if it has none."""
    addresses = addresses_of(pod, _address_type(service, pod))
    if not addresses:
        return None
    metadata = pod.metadata
    return EndpointAddress(
        ip=addresses[0],
        hostname=pod.spec.hostname if has_hostname(pod, service) else "",
        node_name=pod.spec.node_name or None,
        target_ref=ObjectReference(
            PODS.kind, metadata.namespace, metadata.name, metadata.uid
        ),
    )


def _address_type(service: Service, pod: Pod) -> str:
    """Return the type of the addresses in the Endpoints of a service.

    It is the service's first. A headless service that does not say its families has the
    type of the pod's first address (podToEndpointAddressForService).
    """
    types = address_types_of(service)
    if not service.spec.ip_families and len(types) > 1 and ":" in pod.status.pod_ip:
        return IPV6
    return types[0]


def _set(annotations: dict[str, str], name: str, value: str) -> None:
    if value:
        annotations[name] = value
    else:
        annotations.pop(name, None)


def _labels(service: Service) -> dict[str, str]:
    labels = {**labels_of(service), MANAGED_BY: MANAGER, HEADLESS: ""}
    if not is_headless(service):
        del labels[HEADLESS]
    return labels


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
    found = (
        replace(each, target_ref=replace(each.target_ref, resource_version=""))
        if each.target_ref is not None and each.target_ref.resource_version
        else each
        for each in addresses or ()
    )
    return tuple(found) or None


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
    others: list[tuple[EndpointAddress, ...] | None] = [None] * len(subsets)
    if ready > CAPACITY:
        ready_ones = _shares([each.addresses or () for each in subsets], CAPACITY)
    else:
        ready_ones = [each.addresses for each in subsets]
        not_ready_ones = [each.not_ready_addresses or () for each in subsets]
        others = _shares(not_ready_ones, CAPACITY - ready)
    kept = (
        replace(each, addresses=some, not_ready_addresses=more)
        for each, some, more in zip(subsets, ready_ones, others, strict=True)
        if some or more
    )
    return tuple(kept), True


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
