"""Situations of services, each played on purpose."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.network.endpointslice.workload import pod_json, service_json
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    kind = environment.world.kind(plural)
    environment.world.server.objects.create(kind, NAMESPACE, obj)


def _slices(environment: Environment) -> list[JSON]:
    return environment.world.stored("endpointslices", NAMESPACE)


def _endpoints(environment: Environment) -> list[JSON]:
    return [one for each in _slices(environment) for one in each["endpoints"] or []]


def _ready(environment: Environment) -> int:
    return sum(each["conditions"]["ready"] for each in _endpoints(environment))


async def _serve(environment: Environment, pods: int) -> None:
    """Create a service and its pods; wait until all are ready."""
    _create(environment, "services", service_json("front"))
    for number in range(pods):
        _create(environment, "pods", pod_json(f"pod-{number}", "front"))
    await environment.until(lambda: _ready(environment) == pods, within=60)


async def slice_deleted_before_it_is_seen(environment: Environment) -> None:
    """No issue: a user deletes a slice while the cache of slices lags.

    No cache shows the slice between its creation and its deletion.
    """
    _create(environment, "services", service_json("front"))
    await asyncio.sleep(10)
    environment.manager.connection.lagging["endpointslices"] = environment.now + 60
    for number in range(4):
        _create(environment, "pods", pod_json(f"pod-{number}", "front"))
    await asyncio.sleep(20)
    for each in _slices(environment):
        environment.world.delete("endpointslices", each)
    await environment.until(lambda: _ready(environment) == 4, within=120)


async def pod_that_ends_for_long(environment: Environment) -> None:
    """No issue: a pod that is being deleted serves open connections for long.

    It gets no new connections.
    """
    await _serve(environment, 2)
    found = environment.world.find("pods", NAMESPACE, "pod-0")
    assert found is not None
    held = ["example.com/held"]
    environment.world.change(
        "pods", found, lambda obj: obj["metadata"].update(finalizers=held)
    )
    environment.world.delete("pods", found)
    await asyncio.sleep(2)  # it is killed after three seconds
    assert _ready(environment) == 1
    assert [
        each["conditions"]["terminating"] for each in _endpoints(environment)
    ].count(True) == 1


async def pod_that_leaves_a_service(environment: Environment) -> None:
    """No issue: a user takes a pod out of a service by its label, to look into it."""
    await _serve(environment, 2)
    found = environment.world.find("pods", NAMESPACE, "pod-0")
    assert found is not None
    environment.world.change(
        "pods", found, lambda obj: obj["metadata"].update(labels={})
    )
    await environment.until(lambda: len(_endpoints(environment)) == 1, within=10)


async def slice_that_a_user_empties(environment: Environment) -> None:
    """No issue: a user takes the endpoints out of a slice; they come back."""
    await _serve(environment, 2)
    (found,) = _slices(environment)
    environment.world.change(
        "endpointslices", found, lambda obj: obj.update(endpoints=[])
    )
    await environment.until(lambda: _ready(environment) == 2, within=10)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    slice_deleted_before_it_is_seen,
    pod_that_ends_for_long,
    pod_that_leaves_a_service,
    slice_that_a_user_empties,
)
