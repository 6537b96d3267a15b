"""Pods that are created and deleted while the controller cannot see it."""

import asyncio
from typing import Final

from tests.controllers.resource.resourceclaim.workload import (
    DEVICES,
    SHARED,
    allocate,
    begin,
    end,
    find_pod,
    go,
    run,
    set_status,
)
from tests.simulation.environment import Environment, Scenario


async def consumer_goes_while_no_manager_runs(environment: Environment) -> None:
    """Delete the only pod of a claim while no manager runs: the claim is released."""
    await _running(environment)
    assert _reserved(environment) == ["train"]
    environment.manager.pause(60)
    go(environment.world, "train")
    await asyncio.sleep(1)
    environment.manager.crash()
    await environment.until(lambda: not _reserved(environment), within=120)
    assert not _shared(environment)["status"].get("allocation")


async def pod_ends_and_stays(environment: Environment) -> None:
    """No issue: a pod that has ended stays bound to its node for an hour.

    Upstream reserves and releases its claim in a hot loop.
    """
    await _running(environment)
    end(environment.world, "train")
    await asyncio.sleep(10)
    version = _shared(environment)["metadata"]["resourceVersion"]
    await asyncio.sleep(3600)
    assert _shared(environment)["metadata"]["resourceVersion"] == version
    claims = environment.world.stored("resourceclaims", DEVICES)
    assert [each["metadata"]["name"] for each in claims] == [SHARED]


async def watch_of_pods_is_silent(environment: Environment) -> None:
    """No issue: reserve a claim for a pod of a known name that the cache does not show.

    Upstream releases the claim, and its devices may be given to other pods.
    """
    await _running(environment)
    environment.manager.connection.lagging["pods"] = environment.now + 200
    go(environment.world, "train")
    run(environment.world, "train")
    await asyncio.sleep(100)
    pod = find_pod(environment.world, "train")
    assert pod is not None
    uid = pod["metadata"]["uid"]
    entry = {"resource": "pods", "name": "train", "uid": uid}
    set_status(environment.world, _shared(environment), {"reservedFor": [entry]})
    await asyncio.sleep(300)
    assert _shared(environment)["status"].get("reservedFor") == [entry]


async def claim_is_lost(environment: Environment) -> None:
    """No issue: delete the claim of a pod: another one is created.

    Upstream keeps the deleted claim for an hour, and writes its name again.
    """
    await _running(environment)
    own = environment.world.stored("resourceclaims", DEVICES)[1]
    environment.world.change(
        "resourceclaims", own, lambda obj: obj["metadata"].pop("finalizers")
    )
    environment.world.delete("resourceclaims", own)
    await asyncio.sleep(10)
    _, again = environment.world.stored("resourceclaims", DEVICES)
    pod = find_pod(environment.world, "train")
    assert pod is not None
    (entry,) = pod["status"]["resourceClaimStatuses"]
    assert entry["resourceClaimName"] == again["metadata"]["name"]
    assert again["metadata"]["uid"] != own["metadata"]["uid"]


async def _running(environment: Environment) -> None:
    """Run a pod with its claims, which the scheduler has not reserved."""
    begin(environment.world)
    run(environment.world, "train")
    await asyncio.sleep(10)
    allocate(environment.world, "train")
    await asyncio.sleep(10)


def _shared(environment: Environment) -> dict[str, dict[str, object]]:
    found = environment.world.find("resourceclaims", DEVICES, SHARED)
    assert found is not None
    return found


def _reserved(environment: Environment) -> list[str]:
    status: dict[str, list[dict[str, str]]] = _shared(environment)["status"]  # type: ignore[assignment]
    return [each["name"] for each in status.get("reservedFor", ())]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    consumer_goes_while_no_manager_runs,
    pod_ends_and_stays,
    watch_of_pods_is_silent,
    claim_is_lost,
)
