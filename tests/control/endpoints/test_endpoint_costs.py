"""The Endpoints of a service with many pods are made in parts."""

import random

import pytest

from controller_manager.api.core.endpoints import EndpointAddress, EndpointPort
from controller_manager.api.core.v1 import ObjectReference, Pod
from controller_manager.control.endpoints.subsets import Offers
from controller_manager.control.endpoints.trigger_time import TriggerTimes
from tests.control.endpoints.objects import pod, service
from tests.control.endpoints.test_trigger_time import at
from tests.steps import parts_of

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
def test_the_subsets_of_many_addresses_are_made_in_parts() -> None:
    """No part of 20,000 addresses is larger than those of 2,000."""
    _, small = parts_of(offered(2000).subsets())
    found, large = parts_of(offered(20_000).subsets())
    assert sum(len(each.addresses or ()) for each in found) == 20_000
    assert max(large) <= 1.5 * max(small)
    assert sum(large) <= 14 * sum(small)
    for each in found:
        ips = [address.ip for address in each.addresses or ()]
        assert ips == sorted(ips)


def changed(count: int) -> list[Pod]:
    return [pod(f"p{number}", since=at(5)) for number in range(count)]


def test_the_times_of_many_pods_are_observed_in_parts() -> None:
    """No part of 5,000 pods is larger than those of 1,000."""
    _, small = parts_of(TriggerTimes().observe(service(), changed(1000)))
    _, large = parts_of(TriggerTimes().observe(service(), changed(5000)))
    assert len(large) == 5 * (len(small) - 1) + 1
    assert max(large) <= 1.1 * max(small)
