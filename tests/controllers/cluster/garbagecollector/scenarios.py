"""Situations in clusters that concern only the garbage collector."""

import asyncio
from typing import Any, Final

from tests.simulation.ending import leftovers
from tests.simulation.stage import Scenario, Stage
from tests.simulation.world import NAMESPACE

JSON = dict[str, Any]


async def references_to_unknown_kinds(stage: Stage) -> None:
    """No issue: objects come and go that refer to kinds which nobody serves.

    Nothing may be remembered of them, though they were looked at again and again.
    """
    await asyncio.sleep(10)
    stage.world.invented.add("Stranger")
    kind = stage.world.kind("configmaps")
    for number in range(20):
        stranger = {
            "apiVersion": f"example{number}.com/v1",
            "kind": f"Stranger{number}",
            "name": "s",
            "uid": f"00000000-0000-4000-8000-{number:012}",
        }
        metadata = {"name": f"stray-{number}", "ownerReferences": [stranger]}
        stage.world.server.objects.create(kind, NAMESPACE, {"metadata": metadata})
    await asyncio.sleep(100)
    for number in range(20):
        found = stage.world.find("configmaps", NAMESPACE, f"stray-{number}")
        assert found is not None
        stage.world.delete("configmaps", found)
    await asyncio.sleep(1100)  # the last look that was put off has come by then
    assert list(leftovers(stage.world)) == []


SCENARIOS: Final[tuple[Scenario, ...]] = (references_to_unknown_kinds,)
