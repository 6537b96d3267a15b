"""Subsets come out in upstream's canonical form."""

import random
from collections import defaultdict

import msgspec
import pytest

from controller_manager.api.core.services import (
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
)
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.json_objects import JSON
from controller_manager.control.endpoints.subsets import hash_of_port, repack


def subsets(*given: JSON) -> tuple[EndpointSubset, ...]:
    return msgspec.convert(given, tuple[EndpointSubset, ...])


def subset(addresses: str, *ports: tuple[str, int], unready: str = "") -> JSON:
    """Return a subset; addresses are the last parts of IPs."""
    found: JSON = {
        "addresses": [{"ip": f"10.0.0.{each}"} for each in addresses.split()],
        "notReadyAddresses": [{"ip": f"10.0.0.{each}"} for each in unready.split()],
        "ports": [{"name": name, "port": port} for name, port in ports],
    }
    return {what: each for what, each in found.items() if each}


HTTP, DNS = ("http", 80), ("dns", 53)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([{}], [], id="an empty subset"),
        pytest.param([{"ports": [{"port": 80}]}], [], id="ports without addresses"),
        pytest.param([subset("1")], [subset("1")], id="addresses without ports"),
        pytest.param(
            [subset("2 1 2", HTTP)], [subset("1 2", HTTP)], id="addresses are sorted"
        ),
        pytest.param(
            [subset("1", HTTP), subset("2", HTTP)],
            [subset("1 2", HTTP)],
            id="subsets with the same ports are merged",
        ),
        pytest.param(
            [subset("1", HTTP), subset("1", DNS)],
            [subset("1", DNS, HTTP)],
            id="ports with the same addresses are merged",
        ),
        pytest.param(
            [subset("1", HTTP, DNS), subset("2", HTTP)],
            [subset("1", DNS), subset("1 2", HTTP)],
            id="each port has its addresses",
        ),
        pytest.param(
            [subset("1", HTTP), subset("", HTTP, unready="1 2")],
            [subset("", HTTP, unready="1 2")],
            id="not ready counts more than ready",
        ),
        pytest.param(
            [subset("1"), subset("1", HTTP)],
            [subset("1", HTTP)],
            id="the same addresses with and without ports",
        ),
        pytest.param(
            [subset("1 2"), subset("1", HTTP)],
            [subset("1", HTTP), subset("1 2")],
            id="other addresses with and without ports",
        ),
    ],
)
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
    """As does the absence of one."""
    plain = EndpointPort(name="http", port=7070, protocol="TCP")
    named = EndpointPort(
        name="grpc", port=7071, protocol="TCP", app_protocol="kubernetes.io/h2c"
    )
    assert [hash_of_port(each).hex() for each in (plain, named)] == [
        "232dcfa5bb13a1e6034b502621c899a1",
        "54b683816e6529dbbd4c869ba407618c",
    ]


def test_repacked_subsets_are_equivalent_and_stable() -> None:
    """For random subsets: each address has the same ports and the same readiness."""
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
                subset(
                    some(5),
                    *rng.sample(ports, rng.randint(1, 3)),
                    unready=some(5),
                )
                for _ in range(rng.randint(0, 4))
            )
        )
        found = repack(given)
        assert offered(found) == offered(given), seed
        assert repack(found) == found, seed
        shared = [(each.addresses, each.not_ready_addresses) for each in found]
        assert len(set(shared)) == len(shared), seed
