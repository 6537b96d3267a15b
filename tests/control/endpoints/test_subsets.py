"""Subsets come out in upstream's canonical form."""

import random
from collections import defaultdict
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.services import (
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
)
from controller_manager.api.core.v1 import ObjectReference, Pod
from controller_manager.api.json_objects import JSON
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
from controller_manager.control.endpoints.subsets import hash_of_port, repack
from tests.control.endpoints.objects import pod, service


def subsets(*given: JSON) -> tuple[EndpointSubset, ...]:
    return msgspec.convert(given, tuple[EndpointSubset, ...])


def subset(addresses: str, *ports: tuple[str, int], unready: str = "") -> JSON:
    found: JSON = {
        "addresses": [{"ip": f"10.0.0.{each}"} for each in addresses.split()],
        "notReadyAddresses": [{"ip": f"10.0.0.{each}"} for each in unready.split()],
        "ports": [{"name": name, "port": port} for name, port in ports],
    }
    return {what: each for what, each in found.items() if each}


HTTP, DNS = ("http", 80), ("dns", 53)


READY_1 = subset("1", HTTP)
UNREADY = subset("", HTTP, unready="1 2")
REPACKED: dict[str, tuple[list[JSON], list[JSON]]] = {
    "nothing": ([], []),
    "an empty subset": ([{}], []),
    "ports without addresses": ([{"ports": [{"port": 80}]}], []),
    "addresses without ports": ([subset("1")], [subset("1")]),
    "addresses are sorted": ([subset("2 1 2", HTTP)], [subset("1 2", HTTP)]),
    "subsets with the same ports are merged": (
        [READY_1, subset("2", HTTP)],
        [subset("1 2", HTTP)],
    ),
    "ports with the same addresses are merged": (
        [READY_1, subset("1", DNS)],
        [subset("1", DNS, HTTP)],
    ),
    "each port has its addresses": (
        [subset("1", HTTP, DNS), subset("2", HTTP)],
        [subset("1", DNS), subset("1 2", HTTP)],
    ),
    "not ready counts more than ready": ([READY_1, UNREADY], [UNREADY]),
    "the same addresses with and without ports": ([subset("1"), READY_1], [READY_1]),
    "other addresses with and without ports": (
        [subset("1 2"), READY_1],
        [READY_1, subset("1 2")],
    ),
}


@pytest.mark.parametrize(("given", "expected"), REPACKED.values(), ids=REPACKED)
def test_subsets_are_repacked(given: list[JSON], expected: list[JSON]) -> None:
    """As few of them as possible; the order of several is that of their hashes."""
    found = repack(subsets(*given))
    assert sorted(found, key=repr) == sorted(subsets(*expected), key=repr)


def test_the_order_is_upstreams() -> None:
    """These ports and subsets are known in the order of Go's hashes."""

    def made(ips: str, ports: str) -> JSON:
        pairs = (each.split(":") for each in ports.split())
        return {
            "addresses": [{"ip": each} for each in ips.split()],
            "ports": [{"name": name, "port": int(port)} for name, port in pairs],
        }

    given = [
        made("10.12.1.1 10.11.2.2 10.10.3.3", "a:8675 d:309 c:8801"),
        made("10.22.2.2 10.33.3.33 10.11.1.1", "x:867 z:311 y:8992"),
        made("10.31.21.9 10.21.2.9 10.71.2.2", "a:791 b:203 c:7911"),
    ]
    expected = [
        made("10.10.3.3 10.11.2.2 10.12.1.1", "c:8801 d:309 a:8675"),
        made("10.11.1.1 10.22.2.2 10.33.3.33", "y:8992 x:867 z:311"),
        made("10.21.2.9 10.31.21.9 10.71.2.2", "a:791 b:203 c:7911"),
    ]
    assert repack(subsets(*given)) == subsets(*expected)


def test_addresses_are_the_same_if_ip_and_uid_are() -> None:
    """Two pods may share the address of their node; the first description counts."""

    def address(uid: str, hostname: str = "") -> EndpointAddress:
        target = ObjectReference(kind="Pod", uid=uid) if uid else None
        return EndpointAddress(ip="10.0.0.1", hostname=hostname, target_ref=target)

    ports = (EndpointPort(name="http", port=80),)
    given = (address("b", "first"), address("a"), address(""), address("b", "second"))
    (found,) = repack([EndpointSubset(addresses=given, ports=ports)])
    assert found.addresses == (address(""), address("a"), address("b", "first"))


def test_an_app_protocol_counts_in_the_order_of_ports() -> None:
    plain = EndpointPort(name="http", port=7070, protocol="TCP")
    named = EndpointPort(
        name="grpc", port=7071, protocol="TCP", app_protocol="kubernetes.io/h2c"
    )
    assert [hash_of_port(each).hex() for each in (plain, named)] == [
        "232dcfa5bb13a1e6034b502621c899a1",
        "54b683816e6529dbbd4c869ba407618c",
    ]


def test_repacked_subsets_are_equivalent_and_stable() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)

    def some(last: int) -> str:
        return " ".join(str(n) for n in range(last) if rng.random() < 0.4)

    def offered(packed: tuple[EndpointSubset, ...]) -> dict[tuple[str, int], bool]:
        found: defaultdict[tuple[str, int], bool] = defaultdict(lambda: True)
        for each in packed:
            ports = [port.port for port in each.ports or ()]
            for address in each.addresses or ():
                for port in ports:
                    found[address.ip, port] &= True
            for address in each.not_ready_addresses or ():
                for port in ports:
                    found[address.ip, port] = False
        return dict(found)

    for _ in range(100):
        ports = [("p", 1), ("q", 2), ("r", 3)]
        given = subsets(
            *(
                subset(some(5), *rng.sample(ports, rng.randint(1, 3)), unready=some(5))
                for _ in range(rng.randint(0, 4))
            )
        )
        found = repack(given)
        assert offered(found) == offered(given), seed
        assert repack(found) == found, seed
        shared = [(each.addresses, each.not_ready_addresses) for each in found]
        assert len(set(shared)) == len(shared), seed


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
    assert address_types_of(service(**spec)) == types


def test_a_service_without_an_address_is_headless() -> None:
    """Its cluster IP is None or empty."""
    answers = [
        is_headless(service(clusterIP=each)) for each in ("None", "", "10.0.0.1")
    ]
    assert answers == [True, True, False]


def test_a_pod_has_a_name_if_its_subdomain_is_the_service() -> None:
    named = {"hostname": "db-0", "subdomain": "web"}
    assert has_hostname(pod("a", spec=named), service())
    assert not has_hostname(pod("a", spec=named), service("other"))
    assert not has_hostname(pod("a", spec={"subdomain": "web"}), service())


def test_ready_pods_that_stay_take_traffic() -> None:
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


def web(port: int, **more: str) -> dict[str, Any]:
    return container(name="web", containerPort=port) | more


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("containers", "init", "found"),
    [
        ([web(8080)], [], {"http": 8080}),
        ([container(name="dns", containerPort=53)], [], {}),
        ([container(name="dns", containerPort=53, protocol="UDP")], [], {"dns": 53}),
        ([], [], {}),
        ([web(1)], [web(2, **SIDECAR)], {"http": 1}),
        ([], [web(3), web(4, **SIDECAR)], {"http": 4}),
    ],
)
def test_named_ports_are_looked_up_in_containers_and_sidecars(
    containers: list[JSON], init: list[JSON], found: dict[str, int]
) -> None:
    spec = {"containers": containers, "initContainers": init}
    ports = endpoint_ports(service(ports=PORTS), pod("a", spec=spec))
    assert {each.name: each.port for each in ports} == {"metrics": 9100, **found}


def test_a_headless_service_may_have_no_ports() -> None:
    """Any other service has ports, of which a pod may lack all."""
    assert has_no_ports(service(clusterIP="None"))
    assert not has_no_ports(service(clusterIP="None", ports=PORTS))
    assert not has_no_ports(service())
    assert depends_on_pod(service(ports=PORTS))
    assert not depends_on_pod(service(ports=PORTS[1:2]))
