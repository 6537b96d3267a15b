"""Which Endpoints a service is to have (syncService of endpoints_controller.go)."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.endpoints import (
    MANAGED_BY,
    OVER_CAPACITY,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
)
from controller_manager.api.core.services import (
    HEADLESS,
    LAST_CHANGE_TRIGGER_TIME,
    Service,
)
from controller_manager.api.core.v1 import ObjectReference, Pod
from controller_manager.api.discovery.v1 import IPV6
from controller_manager.api.meta import ObjectMeta, annotations_of, labels_of
from controller_manager.control.endpoints.addresses import (
    address_types_of,
    addresses_of,
    belongs_in_endpoints,
    has_hostname,
    is_headless,
    takes_traffic,
)
from controller_manager.control.endpoints.ports import find_port, has_no_ports
from controller_manager.control.endpoints.subsets import Offers
from controller_manager.controllers.network.endpoints.capacity import truncate

MANAGER: Final = "endpoint-controller"
"""The value of the label `MANAGED_BY`."""

TRUNCATED: Final = "truncated"
"""The value of the annotation `OVER_CAPACITY`."""


class View(Struct, frozen=True):
    """A service with its pods, its Endpoints, and the time of the change to write.

    `current` is `None` if there are no Endpoints yet. `trigger_time` is empty if
    nothing has a new time.
    """

    service: Service
    pods: tuple[Pod, ...]
    current: Endpoints | None
    trigger_time: str = ""


def decide(view: View) -> Endpoints | None:
    """Return the Endpoints to write, `None` if they are as they should be.

    A new trigger time alone is not written.
    """
    service, current = view.service, view.current
    subsets, is_truncated = truncate(_subsets(service, view.pods))
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


def _subsets(service: Service, pods: Iterable[Pod]) -> tuple[EndpointSubset, ...]:
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
            kind="Pod",
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
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


def _is_same(
    stored: tuple[EndpointSubset, ...], wanted: tuple[EndpointSubset, ...]
) -> bool:
    """Tell whether subsets are equal, apart from the versions of the pods."""
    return stored == wanted or tuple(map(_without_versions, stored)) == wanted


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
