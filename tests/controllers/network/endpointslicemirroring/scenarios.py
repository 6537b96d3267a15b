"""Situations in clusters that concern only mirrored Endpoints."""

import asyncio
import random
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.network.endpointslicemirroring.model import (
    expected_offers,
    is_mirror_of,
    offers_of_slice,
)
from tests.controllers.network.endpointslicemirroring.workload import (
    endpoints_json,
    service_json,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_NAME: Final = "mail"


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    kind = environment.world.kind(plural)
    environment.world.server.objects.create(kind, NAMESPACE, obj)


def _endpoints(environment: Environment) -> JSON:
    found = environment.world.find("endpoints", NAMESPACE, _NAME)
    assert found is not None
    return found


def _mirrors(environment: Environment) -> list[JSON]:
    endpoints = _endpoints(environment)
    slices = environment.world.stored("endpointslices", NAMESPACE)
    return [each for each in slices if is_mirror_of(each, endpoints)]


def _is_mirrored(environment: Environment) -> bool:
    offers = [
        offer for each in _mirrors(environment) for offer in offers_of_slice(each)
    ]
    return bool(offers) and set(offers) == expected_offers(_endpoints(environment))


async def mirrored_slice_is_taken_away(environment: Environment) -> None:
    """No upstream issue, recorded: a user relabels a mirrored slice.

    Upstream then waits for ever for its cache to show that slice. Here another slice is
    created at once; the relabelled slice is not changed.
    """
    endpoints = endpoints_json(_NAME, random.Random(5))
    endpoints["subsets"] = [
        {
            "addresses": [{"ip": "192.168.0.1"}],
            "ports": [{"name": "smtp", "port": 25, "protocol": "TCP"}],
        }
    ]
    _create(environment, "services", service_json(_NAME))
    _create(environment, "endpoints", endpoints)
    await environment.until(lambda: _is_mirrored(environment), within=60)
    (taken,) = _mirrors(environment)
    environment.world.change(
        "endpointslices",
        taken,
        lambda obj: obj["metadata"]["labels"].update(
            {"endpointslice.kubernetes.io/managed-by": "me"}
        ),
    )
    await environment.until(lambda: _is_mirrored(environment), within=10)
    name = taken["metadata"]["name"]
    assert environment.world.find("endpointslices", NAMESPACE, name) is not None


async def endpoints_are_replaced_while_slices_lag(environment: Environment) -> None:
    """No upstream issue: Endpoints are replaced, and their slices are not seen.

    The slices of the former Endpoints are deleted, and the new ones are created, each
    once.
    """
    _create(environment, "services", service_json(_NAME))
    for seed in range(1, 6):
        _create(environment, "endpoints", endpoints_json(_NAME, random.Random(seed)))
        environment.manager.connection.lagging["endpointslices"] = environment.now + 20
        await asyncio.sleep(30)
        environment.world.delete("endpoints", _endpoints(environment))
    _create(environment, "endpoints", endpoints_json(_NAME, random.Random(9)))
    await environment.until(lambda: _is_mirrored(environment), within=60)
    await asyncio.sleep(60)
    assert _is_mirrored(environment)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    mirrored_slice_is_taken_away,
    endpoints_are_replaced_while_slices_lag,
)
