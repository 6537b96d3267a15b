"""Situations in clusters that concern only the binding of volumes."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.volumebinder.binding import (
    BIND_COMPLETED,
)
from tests.controllers.storage.volumebinder.workload import (
    DISKS,
    claim_json,
    volume_json,
)
from tests.simulation.environment import Environment, Scenario

_CLAIMS: Final = "persistentvolumeclaims"
_VOLUMES: Final = "persistentvolumes"


def _create(environment: Environment, plural: str, obj: JSON) -> None:
    kind = environment.world.kind(plural)
    namespace = DISKS if kind.namespaced else ""
    environment.world.server.objects.create(kind, namespace, obj)


def _claim(environment: Environment, name: str) -> JSON:
    found = environment.world.find(_CLAIMS, DISKS, name)
    assert found is not None
    return found


def _volume_of(environment: Environment, name: str) -> str:
    """Return the volume of a claim that is Bound, "" for another one."""
    claim = _claim(environment, name)
    is_bound = claim.get("status", {}).get("phase") == "Bound"
    return claim["spec"].get("volumeName", "") if is_bound else ""


def _phase(environment: Environment, volume: str) -> str:
    found = environment.world.find(_VOLUMES, "", volume)
    return "" if found is None else found.get("status", {}).get("phase", "")


def _remove(environment: Environment, plural: str, namespace: str, name: str) -> None:
    world = environment.world
    found = world.find(plural, namespace, name)
    assert found is not None
    world.change(plural, found, lambda obj: obj["metadata"].pop("finalizers", None))
    if (found := world.find(plural, namespace, name)) is not None:
        world.delete(plural, found)


async def claims_compete_while_caches_lag(environment: Environment) -> None:
    """No issue: claims are bound while the watch of volumes is silent for two minutes.

    The manager has its own writes in the assume cache. As upstream: all claims are
    bound meanwhile, and no volume is given away twice.
    """
    environment.world.create_namespace(DISKS)
    for number in range(20):
        _create(environment, _VOLUMES, volume_json(f"v-{number:02}"))
    await asyncio.sleep(10)
    environment.manager.connection.lagging[_VOLUMES] = environment.now + 120
    for number in range(20):
        _create(environment, _CLAIMS, claim_json(f"c-{number:02}"))
    await asyncio.sleep(60)
    bound = {_volume_of(environment, f"c-{number:02}") for number in range(20)}
    assert len(bound - {""}) == 20, bound


async def namesake_asks_for_a_released_volume(environment: Environment) -> None:
    """No issue: a claim is replaced by one of the same name that wants its volume.

    As upstream: the volume is Released at once, and the new claim waits until a user
    clears the reference.
    """
    environment.world.create_namespace(DISKS)
    _create(environment, _VOLUMES, volume_json("v"))
    _create(environment, _CLAIMS, claim_json("data"))
    await environment.until(lambda: _volume_of(environment, "data") == "v", 60)
    _remove(environment, _CLAIMS, DISKS, "data")
    await environment.until(lambda: _phase(environment, "v") == "Released", 10)
    _create(environment, _CLAIMS, claim_json("data", volumeName="v"))
    await asyncio.sleep(60)
    assert _volume_of(environment, "data") == ""
    found = environment.world.find(_VOLUMES, "", "v")
    assert found is not None
    environment.world.change(_VOLUMES, found, lambda obj: obj["spec"].pop("claimRef"))
    await environment.until(lambda: _volume_of(environment, "data") == "v", 10)


async def volume_is_taken_over_by_force(environment: Environment) -> None:
    """No issue: another program gives a bound volume to another claim.

    As upstream: the first claim is Lost, with an event, and the second has it.
    """
    environment.world.create_namespace(DISKS)
    _create(environment, _VOLUMES, volume_json("v"))
    _create(environment, _CLAIMS, claim_json("first"))
    await environment.until(lambda: _volume_of(environment, "first") == "v", 60)
    _create(environment, _CLAIMS, claim_json("second", volumeName="v"))
    await asyncio.sleep(30)
    uid = _claim(environment, "second")["metadata"]["uid"]
    found = environment.world.find(_VOLUMES, "", "v")
    assert found is not None
    environment.world.change(
        _VOLUMES,
        found,
        lambda obj: obj["spec"]["claimRef"].update(name="second", uid=uid),
    )
    await environment.until(lambda: _volume_of(environment, "second") == "v", 60)
    assert _claim(environment, "first")["status"]["phase"] == "Lost"


async def claim_is_gone_before_its_volume_is_bound(environment: Environment) -> None:
    """No issue: a claim is deleted between the two halves of its binding.

    As upstream: its volume is released, and is not given to the next claim of that
    name.
    """
    environment.world.create_namespace(DISKS)
    _create(environment, _CLAIMS, claim_json("data"))
    uid = _claim(environment, "data")["metadata"]["uid"]
    reference = {"kind": "x", "namespace": DISKS, "name": "data", "uid": uid}
    await asyncio.sleep(5)
    environment.manager.connection.lagging[_CLAIMS] = environment.now + 60
    _remove(environment, _CLAIMS, DISKS, "data")
    _create(environment, _CLAIMS, claim_json("data"))
    _create(environment, _VOLUMES, volume_json("v", claimRef=reference))
    await asyncio.sleep(120)
    assert _phase(environment, "v") == "Released"
    assert _volume_of(environment, "data") == ""


async def provisioned_before_the_claim_is_seen(environment: Environment) -> None:
    """kubernetes#67617: a volume exists before the cache shows its claim.

    As upstream: the claim is read from the API server; the volume is not released.
    """
    environment.world.create_namespace(DISKS)
    await asyncio.sleep(10)
    environment.manager.connection.lagging[_CLAIMS] = environment.now + 60
    _create(environment, _CLAIMS, claim_json("data"))
    uid = _claim(environment, "data")["metadata"]["uid"]
    reference = {"kind": "x", "namespace": DISKS, "name": "data", "uid": uid}
    _create(environment, _VOLUMES, volume_json("v", claimRef=reference))
    await asyncio.sleep(30)
    assert _phase(environment, "v") == "Pending"
    await environment.until(lambda: _volume_of(environment, "data") == "v", 120)


async def bound_before_the_volume_is_seen(environment: Environment) -> None:
    """No issue: another program binds a claim while the cache of volumes lags.

    Upstream says that its data is lost. Here the volume is read from the API server.
    """
    environment.world.create_namespace(DISKS)
    await asyncio.sleep(10)
    environment.manager.connection.lagging[_VOLUMES] = environment.now + 60
    bound = claim_json("data", volumeName="v")
    bound["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
    _create(environment, _CLAIMS, bound)
    uid = _claim(environment, "data")["metadata"]["uid"]
    reference = {"kind": "x", "namespace": DISKS, "name": "data", "uid": uid}
    _create(environment, _VOLUMES, volume_json("v", claimRef=reference))
    await asyncio.sleep(30)
    assert _claim(environment, "data")["status"]["phase"] == "Pending"
    await environment.until(lambda: _volume_of(environment, "data") == "v", 60)


async def lost_claim_is_found_again(environment: Environment) -> None:
    """No issue: a volume is deleted by force, and created again for its claim."""
    environment.world.create_namespace(DISKS)
    _create(environment, _VOLUMES, volume_json("v"))
    _create(environment, _CLAIMS, claim_json("data"))
    await environment.until(lambda: _volume_of(environment, "data") == "v", 60)
    _remove(environment, _VOLUMES, "", "v")
    await asyncio.sleep(5)
    assert _claim(environment, "data")["status"]["phase"] == "Lost"
    uid = _claim(environment, "data")["metadata"]["uid"]
    reference = {"kind": "x", "namespace": DISKS, "name": "data", "uid": uid}
    _create(environment, _VOLUMES, volume_json("v", claimRef=reference))
    await environment.until(lambda: _volume_of(environment, "data") == "v", 20)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    claims_compete_while_caches_lag,
    namesake_asks_for_a_released_volume,
    volume_is_taken_over_by_force,
    claim_is_gone_before_its_volume_is_bound,
    provisioned_before_the_claim_is_seen,
    bound_before_the_volume_is_seen,
    lost_claim_is_found_again,
)
