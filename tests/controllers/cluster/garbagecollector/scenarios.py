"""Situations in clusters that concern only the garbage collector."""

import asyncio
from typing import Any, Final

from tests.simulation.ending import remembered_deleted
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

JSON = dict[str, Any]


async def references_to_unknown_kinds(environment: Environment) -> None:
    """No issue: objects come and go that refer to kinds which nobody serves.

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


SCENARIOS: Final[tuple[Scenario, ...]] = (references_to_unknown_kinds,)
