"""Decisions about the slices of one address type, on plain values."""

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import Node
from controller_manager.api.discovery.v1 import Endpoint, EndpointPort, EndpointSlice
from controller_manager.api.json_objects import JSON
from controller_manager.control.endpoints.slice_writes import SliceUsage
from controller_manager.controllers.network.endpointslice.slices import (
    Backend,
    Plan,
    Ports,
    ServicePorts,
    endpoint_of,
    in_order,
    plan,
    slice_labels,
    template_of,
)
from tests.control.endpoints.objects import endpoint, endpoint_slice, pod, service

TEMPLATE = template_of(service(), "IPv4")
HTTP = (EndpointPort(name="http", port=8080, protocol="TCP"),)
METRICS = (EndpointPort(name="metrics", port=9100, protocol="TCP"),)
LIMIT = 3


def backend(number: int, ports: Ports = HTTP, *, ready: bool = True) -> Backend:
    target = {"kind": "Pod", "namespace": "default", "name": f"p{number}"}
    made = endpoint(f"10.1.0.{number}", ready=ready, targetRef=target)
    return Backend(ports, made)


def owned(
    name: str, *backends: Backend, ports: Ports = HTTP, **metadata: object
) -> EndpointSlice:
    made = replace(TEMPLATE, ports=ports).make(tuple(b.endpoint for b in backends))
    named = replace(made.metadata, name=name, uid=f"{name}-uid", **metadata)
    return replace(made, metadata=named)


def planned(slices: list[EndpointSlice], *backends: Backend) -> Plan:
    return plan(TEMPLATE, slices, (), backends, LIMIT)


def names(slices: tuple[EndpointSlice, ...]) -> list[str]:
    return [each.metadata.name for each in slices]


def test_a_service_without_backends_has_a_placeholder() -> None:
    """Clients see that it has no endpoints; it has no ports either."""
    (made,) = planned([]).changes.create
    assert made == TEMPLATE.make(())
    assert (made.endpoints, made.ports) == ((), ())
    assert planned([]).usage == (SliceUsage(0, 1),)


def test_the_placeholder_stays() -> None:
    """It is neither written again nor deleted."""
    placeholder = owned("empty", ports=())
    changes = planned([placeholder]).changes
    assert (changes.unchanged, changes.count) == ((placeholder,), 0)


@pytest.mark.parametrize(
    "existing",
    [
        owned("s", ports=(), labels={"other": "labels"}),
        owned("s", ports=HTTP),
        owned("s", ports=(), owner_references=()),
        owned("s", backend(1)),
    ],
)
def test_another_slice_than_the_placeholder_is_replaced(
    existing: EndpointSlice,
) -> None:
    """It has other labels, or ports, or another owner, or old endpoints."""
    changes = planned([existing]).changes
    assert (names(changes.delete), len(changes.create)) == (["s"], 1)


def test_backends_take_the_place_of_the_placeholder() -> None:
    """It has other ports, so it is deleted; the writes make an update of both."""
    changes = planned([owned("empty", ports=())], backend(1)).changes
    assert names(changes.delete) == ["empty"]
    assert [each.ports for each in changes.create] == [HTTP]


def test_the_slices_of_a_headless_service_without_ports_fill_the_placeholder() -> None:
    """They have no ports either."""
    changes = planned([owned("empty", ports=())], backend(1, ())).changes
    assert (names(changes.update), changes.count) == (["empty"], 1)


def test_each_set_of_ports_has_slices_of_its_own() -> None:
    """Slices with ports that no backend has are deleted."""
    old = owned("old", backend(3), ports=METRICS)
    result = planned(
        [owned("s", backend(1)), old], backend(1), backend(2, (*METRICS, *HTTP))
    )
    assert names(result.changes.unchanged) == ["s"]
    assert names(result.changes.delete) == ["old"]
    assert [each.ports for each in result.changes.create] == [(*METRICS, *HTTP)]
    assert sorted(each.endpoints for each in result.usage) == [1, 1]


def test_the_order_of_ports_in_a_slice_does_not_matter() -> None:
    """Upstream writes them in another order."""
    ports = in_order((*METRICS, *HTTP))
    existing = owned("s", backend(1, ports), ports=tuple(reversed(ports)))
    assert planned([existing], backend(1, ports)).changes.count == 0


def test_slices_of_a_former_service_of_the_name_are_deleted() -> None:
    """The garbage collector would delete them soon; they are not used again."""
    foreign = endpoint_slice("old", endpoint("10.1.0.1"))
    changes = planned([foreign], backend(1)).changes
    assert (names(changes.delete), len(changes.create)) == (["old"], 1)


def test_the_numbers_of_a_plan_are_those_of_its_slices() -> None:
    """The metrics show them."""
    result = planned(
        [owned("a", backend(1), backend(9)), owned("b", backend(2), backend(3))],
        *map(backend, range(1, 8)),
    )
    assert result.usage == (SliceUsage(7, 3),)
    assert (result.added, result.removed) == (4, 1)


def test_labels_are_those_of_the_service_and_the_reserved_ones() -> None:
    """A reserved label on the service has no effect."""
    labels = {
        "app": "web",
        "kubernetes.io/service-name": "other",
        "endpointslice.kubernetes.io/managed-by": "me",
        "service.kubernetes.io/headless": "no",
    }
    mine = {
        "app": "web",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert slice_labels(service(labels=labels)) == mine
    headless = service(labels=labels, clusterIP="None")
    assert slice_labels(headless) == mine | {"service.kubernetes.io/headless": ""}


def node(**labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": "n1", "labels": labels}}, Node)


ZONED = node(**{"topology.kubernetes.io/zone": "z"})


def expected(**fields: object) -> Endpoint:
    target = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "a-uid"}
    made = endpoint("10.1.0.1", targetRef=target, nodeName="n1", zone="z")
    conditions = fields.pop("conditions", None)
    if isinstance(conditions, tuple):
        ready, serving, terminating = conditions
        changed = replace(
            made.conditions, ready=ready, serving=serving, terminating=terminating
        )
        made = replace(made, conditions=changed)
    return replace(made, **fields)


PUBLISHED = service(publishNotReadyAddresses=True)
NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("of", "pod_fields", "at", "found"),
    [
        (service(), {}, ZONED, expected()),
        (service(), {}, node(), expected(zone=None)),
        (service(), {}, None, expected(zone=None)),
        (
            service(),
            {"ready": False},
            ZONED,
            expected(conditions=(False, False, False)),
        ),
        (
            service(),
            {"deletionTimestamp": NOW},
            ZONED,
            expected(conditions=(False, True, True)),
        ),
        (PUBLISHED, {"ready": False}, ZONED, expected(conditions=(True, False, False))),
        (
            PUBLISHED,
            {"deletionTimestamp": NOW},
            ZONED,
            expected(conditions=(True, True, True)),
        ),
        (
            service(),
            {"spec": {"hostname": "db-0", "subdomain": "web"}},
            ZONED,
            expected(hostname="db-0"),
        ),
        (
            service(),
            {"spec": {"hostname": "db-0", "subdomain": "other"}},
            ZONED,
            expected(),
        ),
    ],
)
def test_an_endpoint_shows_its_pod(
    of: Service, pod_fields: JSON, at: Node | None, found: Endpoint
) -> None:
    """Its conditions, its node with the zone, its host name."""
    assert endpoint_of(of, pod("a", "10.1.0.1", **pod_fields), at, "IPv4") == found


def test_a_pod_without_an_address_of_the_type_has_no_endpoint() -> None:
    """It may have an endpoint of the other type."""
    assert endpoint_of(service(), pod("a", "10.1.0.1"), ZONED, "IPv6") is None


def test_ports_that_do_not_depend_on_the_pod_are_computed_once() -> None:
    """Only a port with a name is looked up in each pod."""
    fixed = ServicePorts(service(ports=[{"name": "http", "targetPort": 8080}]))
    assert fixed.of(pod("a")) is fixed.of(pod("b"))
    named = ServicePorts(service(ports=[{"name": "http", "targetPort": "web"}]))
    ports = [{"name": "web", "containerPort": 80}]
    assert [
        named.of(pod("a")),
        named.of(pod("b", spec={"containers": [{"ports": ports}]})),
    ] == [
        (),
        (EndpointPort(name="http", port=80, protocol="TCP"),),
    ]
