"""The addresses, the ports and the host name that a pod adds to a service."""

from typing import Any

import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.control.endpoints.pods import (
    address_types_of,
    addresses_of,
    belongs_in_endpoints,
    depends_on_pod,
    endpoint_ports,
    has_hostname,
    has_no_ports,
    is_headless,
    takes_traffic,
)
from tests.control.endpoints.objects import pod, service

NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("texts", "of_type_4", "of_type_6"),
    [
        (("10.1.0.1",), ("10.1.0.1",), ()),
        (("10.1.0.1", "FD00:0::1"), ("10.1.0.1",), ("fd00::1",)),
        (("fd00::1", "10.1.0.1"), ("10.1.0.1",), ("fd00::1",)),
        (("010.001.000.09",), ("10.1.0.9",), ()),
        (("::ffff:10.1.0.1",), ("10.1.0.1",), ()),
        (("no address", "10.1.0.1"), ("10.1.0.1",), ()),
        ((), (), ()),
    ],
)
def test_addresses_are_those_of_the_type_in_their_usual_form(
    texts: tuple[str, ...], of_type_4: tuple[str, ...], of_type_6: tuple[str, ...]
) -> None:
    """An invalid address is left out: an API server would refuse the whole slice."""
    assert addresses_of(pod("a", *texts), "IPv4") == of_type_4
    assert addresses_of(pod("a", *texts), "IPv6") == of_type_6


@pytest.mark.parametrize(
    ("subject", "belongs", "belongs_while_terminating"),
    [
        (pod("a", "10.1.0.1"), True, True),
        (pod("a", "10.1.0.1", ready=False), True, True),
        (pod("a"), False, False),
        (pod("a", "10.1.0.1", phase="Succeeded"), False, False),
        (pod("a", "10.1.0.1", phase="Failed"), False, False),
        (pod("a", "10.1.0.1", deletionTimestamp=NOW), False, True),
    ],
)
def test_pods_that_run_and_have_an_address_belong_in_endpoints(
    subject: Pod, belongs: bool, belongs_while_terminating: bool
) -> None:
    """Ready or not."""
    answers = [
        belongs_in_endpoints(subject, include_terminating=each)
        for each in (False, True)
    ]
    assert answers == [belongs, belongs_while_terminating]


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({"ipFamilies": ["IPv4"]}, ("IPv4",)),
        ({"ipFamilies": ["IPv6", "IPv4"]}, ("IPv6", "IPv4")),
        ({}, ("IPv4",)),
        ({"clusterIP": "fd00::1"}, ("IPv6",)),
        ({"clusterIP": "None"}, ("IPv4", "IPv6")),
        ({"clusterIP": ""}, ("IPv4", "IPv6")),
        ({"ipFamilies": ["Other"]}, ("IPv4",)),
    ],
)
def test_the_types_of_addresses_are_those_of_the_service(
    spec: dict[str, Any], types: tuple[str, ...]
) -> None:
    """Without families, the cluster IP gives the type; a headless service has both."""
    assert address_types_of(service(**spec)) == types


def test_a_service_without_an_address_is_headless() -> None:
    """Its cluster IP is None or empty."""
    answers = [
        is_headless(service(clusterIP=each)) for each in ("None", "", "10.0.0.1")
    ]
    assert answers == [True, True, False]


def test_a_pod_has_a_name_if_its_subdomain_is_the_service() -> None:
    """And if it has a host name at all."""
    named = {"hostname": "db-0", "subdomain": "web"}
    assert has_hostname(pod("a", spec=named), service())
    assert not has_hostname(pod("a", spec=named), service("other"))
    assert not has_hostname(pod("a", spec={"subdomain": "web"}), service())


def test_ready_pods_that_stay_take_traffic() -> None:
    """With publishNotReadyAddresses, all pods take traffic."""
    pods = [pod("a"), pod("a", ready=False), pod("a", deletionTimestamp=NOW)]
    assert [takes_traffic(each, service()) for each in pods] == [True, False, False]
    published = service(publishNotReadyAddresses=True)
    assert all(takes_traffic(each, published) for each in pods)


PORTS = [
    {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},
    {"name": "metrics", "port": 9090, "targetPort": 9100, "protocol": "TCP"},
    {"name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP"},
]


def container(**port: Any) -> dict[str, Any]:
    return {"ports": [{"protocol": "TCP", **port}]}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"containers": [container(name="web", containerPort=8080)]}, {"http": 8080}),
        ({"containers": [container(name="dns", containerPort=53)]}, {}),
        (
            {"containers": [container(name="dns", containerPort=53, protocol="UDP")]},
            {"dns": 53},
        ),
        ({}, {}),
        (
            {
                "containers": [container(name="web", containerPort=1)],
                "initContainers": [
                    container(name="web", containerPort=2) | {"restartPolicy": "Always"}
                ],
            },
            {"http": 1},
        ),
        (
            {
                "initContainers": [
                    container(name="web", containerPort=3),
                    container(name="web", containerPort=4)
                    | {"restartPolicy": "Always"},
                ]
            },
            {"http": 4},
        ),
    ],
)
def test_named_ports_are_looked_up_in_containers_and_sidecars(
    spec: dict[str, Any], found: dict[str, int]
) -> None:
    """By name and protocol; a pod without the port leaves it out."""
    ports = endpoint_ports(service(ports=PORTS), pod("a", spec=spec))
    assert {each.name: each.port for each in ports} == {"metrics": 9100, **found}


def test_a_headless_service_may_have_no_ports() -> None:
    """Any other service has ports, of which a pod may lack all."""
    assert has_no_ports(service(clusterIP="None"))
    assert not has_no_ports(service(clusterIP="None", ports=PORTS))
    assert not has_no_ports(service())
    assert depends_on_pod(service(ports=PORTS))
    assert not depends_on_pod(service(ports=PORTS[1:2]))
