"""The cost of the Endpoints of a service grows with its pods, no faster."""

import random

import pytest

from controller_manager.api.core.services import EndpointAddress, EndpointPort
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.control.endpoints.subsets import Offers
from tests.steps import Steps

PORTS = (EndpointPort(name="a", port=80), EndpointPort(name="b", port=81))


def offered(count: int) -> Offers:
    """Return addresses in any order; every second one lacks the second port."""
    offers = Offers()
    numbers = random.Random(1).sample(range(count), count)
    for number in numbers:
        address = EndpointAddress(
            ip=f"10.0.{number // 250}.{number % 250}",
            target_ref=ObjectReference(uid=f"uid-{number}"),
        )
        offers.add(address, PORTS[: 1 + number % 2], ready=number % 3 > 0)
    return offers


@pytest.mark.slow
def test_the_subsets_of_many_addresses_cost_the_same_for_each() -> None:
    """Ten times the addresses take ten times the steps."""
    few, many = offered(2000), offered(20_000)
    with Steps() as small:
        few.subsets()
    with Steps() as large:
        found = many.subsets()
    assert sum(len(each.addresses or ()) for each in found) == 20_000
    assert large.number <= 10.5 * small.number
    for each in found:
        ips = [address.ip for address in each.addresses or ()]
        assert ips == sorted(ips)
