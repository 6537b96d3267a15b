"""Situations in clusters that concern only the garbage collector."""

import asyncio
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.ending import remembered_deleted
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE


async def references_to_unknown_kinds(environment: Environment) -> None:
    """No issue: objects come and go that refer to kinds that are not served.

    Nothing may be remembered of them, though they were looked at again and again.
    """
    await asyncio.sleep(10)
    environment.world.invented.add("Stranger")
    kind = environment.world.kind("configmaps")
    for number in range(20):
        stranger = {
            "apiVersion": f"example{number}.com/v1",
            "kind": f"Stranger{number}",
            "name": "s",
            "uid": f"00000000-0000-4000-8000-{number:012}",
        }
        metadata = {"name": f"stray-{number}", "ownerReferences": [stranger]}
        environment.world.server.objects.create(kind, NAMESPACE, {"metadata": metadata})
    await asyncio.sleep(100)
    for number in range(20):
        found = environment.world.find("configmaps", NAMESPACE, f"stray-{number}")
        assert found is not None
        environment.world.delete("configmaps", found)
    await asyncio.sleep(1100)  # the last look that was put off has come by then
    assert list(remembered_deleted(environment.world)) == []


async def orphan_that_no_watch_shows(environment: Environment) -> None:
    """No issue: an owner is deleted, its dependents stay, and one of them is new.

    The garbage collector lists the dependents: its watch does not show the new one yet.
    The next process does not know that the dependents were to stay.
    """
    world = environment.world

    def create(plural: str, name: str, **metadata: Any) -> JSON:
        obj = {"metadata": {"name": name, **metadata}}
        stored = world.server.objects.create(world.kind(plural), NAMESPACE, obj)
        return dict(stored.obj)

    await asyncio.sleep(10)
    owner = create("secrets", "owner")
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner"}
    references = [{**reference, "uid": owner["metadata"]["uid"]}]
    create("configmaps", "known", ownerReferences=references)
    await asyncio.sleep(10)
    environment.manager.connection.lagging["configmaps"] = environment.now + 100
    create("configmaps", "new", ownerReferences=references)
    world.delete("secrets", owner, policy="Orphan")
    await asyncio.sleep(30)
    environment.manager.crash()
    await asyncio.sleep(300)
    for name in ("known", "new"):
        found = world.find("configmaps", NAMESPACE, name)
        assert found is not None, name
        assert "ownerReferences" not in found["metadata"], name


SCENARIOS: Final[tuple[Scenario, ...]] = (
    references_to_unknown_kinds,
    orphan_that_no_watch_shows,
)
