"""No endpoint is missing between two writes of one sync."""

import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.core.services import Endpoints
from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.network.endpointslicemirroring.slices import (
    plan,
)
from tests.controllers.network.endpointslicemirroring.test_slices import (
    endpoints,
    mirrored,
    subset,
)
from tests.controllers.nodes.nodelifecycle.calls import counted_calls

Offer = tuple[str, str]
"""An address and the name of a port."""

_NUMBERS: Final = count()


def offers(slices: Sequence[EndpointSlice]) -> set[Offer]:
    return {
        (address, port.name or "")
        for each in slices
        for endpoint in each.endpoints or ()
        for address in endpoint.addresses or ()
        for port in each.ports or ()
    }


def states(
    before: Sequence[EndpointSlice], given: Endpoints
) -> Iterator[list[EndpointSlice]]:
    """Yield the slices after each write of a sync."""
    stored = {each.metadata.name: each for each in before}
    wire: list[JSON] = [msgspec.json.decode(msgspec.json.encode(e)) for e in before]
    changes = mirrored(given, *wire).changes
    for each in changes.create:
        name = f"db-{next(_NUMBERS)}"
        metadata = replace(each.metadata, name=name, uid=name)
        stored[name] = replace(each, metadata=metadata)
        yield list(stored.values())
    for each in changes.update:
        stored[each.metadata.name] = each
        yield list(stored.values())
    for each in changes.delete:
        del stored[each.metadata.name]
        yield list(stored.values())
    yield list(stored.values())


def port(name: str) -> JSON:
    return {"name": name, "port": ord(name), "protocol": "TCP"}


def test_an_endpoint_that_stays_exists_after_each_write() -> None:
    """The Endpoints are random."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(300):
        stored: list[EndpointSlice] = []
        for _ in range(4):
            given = endpoints(
                *(
                    subset(f"10.0.0.{number}", "", *map(port, chosen))
                    for number in range(1, 4)
                    if (chosen := [each for each in "pqrs" if rng.random() < 0.6])
                )
            )
            before = offers(stored)
            steps = list(states(stored, given))
            stays = before & offers(steps[-1])
            assert [stays - offers(each) for each in steps] == [set()] * len(steps), (
                seed
            )
            stored = steps[-1]


A, B = "10.0.0.1", "10.0.0.2"
P, Q, R, S = map(port, "pqrs")


def sync(given: Endpoints, *before: EndpointSlice) -> list[list[EndpointSlice]]:
    """Return the slices after each write."""
    return list(states(before, given))


def test_a_port_gets_its_new_slice_before_it_loses_the_old_one() -> None:
    """Both slices are used again; the port q moves from the slice of p to that of r."""
    before = sync(endpoints(subset(A, "", P, Q), subset(B, "", R)))[-1]
    after = endpoints(subset(A, "", P), subset(f"{A} {B}", "", Q, R))
    steps = sync(after, *before)
    assert sorted(len(each.ports or ()) for each in before) == [1, 2]
    assert offers(steps[-1]) == {(A, "p"), (A, "q"), (B, "q"), (A, "r"), (B, "r")}
    assert all({(A, "p"), (A, "q"), (B, "r")} <= offers(each) for each in steps)
    assert len(steps) == 2 + 1


def test_a_slice_is_not_used_again_if_an_endpoint_were_missing() -> None:
    """Two slices exchange ports: new ones are created first."""
    before = sync(endpoints(subset(A, "", P, Q), subset(B, "", R, S)))[-1]
    both = f"{A} {B}"
    after = endpoints(subset(both, "", P, R), subset(f"{both} 10.0.0.3", "", Q, S))
    steps = sync(after, *before)
    assert all(offers(before) <= offers(each) for each in steps)
    assert len(steps) == 2 + 2 + 1


def many_ports(count: int, first: int) -> Endpoints:
    """Return Endpoints with as many subsets, of one address and port each."""
    return endpoints(
        *(
            subset(
                f"10.0.{number // 250}.{number % 250 + 1}",
                "",
                {"name": f"p{first + number}", "port": 1 + number, "protocol": "TCP"},
            )
            for number in range(count)
        )
    )


def calls_of_a_change(count: int, first: int) -> int:
    """Return the calls of functions when all slices get the ports of others."""
    before = sync(many_ports(count, 0))[-1]
    after = many_ports(count, first)
    with counted_calls() as calls:
        found = plan(after, before, 1000)
    assert found.changes.count > 0
    return calls.count


@pytest.mark.parametrize("first", [1, 50, 100_000])
def test_the_order_costs_time_in_proportion_to_the_slices(first: int) -> None:
    """A user may write an object with thousands of subsets."""
    assert calls_of_a_change(400, first) < 5 * calls_of_a_change(100, first)
