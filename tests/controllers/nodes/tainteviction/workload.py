"""Users who taint a node, and who run pods there that tolerate it for some time."""

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.registry.core.nodes import KIND as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


NODE_NAME: Final = "dedicated"

_FOR_OTHERS: Final[JSON] = {"key": "own", "effect": "NoSchedule"}
"""Keeps the pods of all other users away, so that only those of here are evicted."""

_SECONDS: Final = (None, 0, 10, 60, 300)


class TaintUsers(Workload):
    """They bind pods to a node of their own, and taint it now and then."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of taints {world.seed}")

    async def use(self, operations: int) -> None:
        objects = self.world.server.objects
        spec = {"taints": [_FOR_OTHERS]}
        objects.create(NODE, "", {"metadata": {"name": NODE_NAME}, "spec": spec})
        for number in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            name = f"tolerant-{number}"
            with suppress(Refusal):  # a quota may be full
                objects.create(POD, "default", self._pod(name))
            if self._rng.random() < 1 / 2:
                self._taint(self._rng.choice([(), ("x",), ("x", "y"), ("y",)]))

    async def clean_up(self) -> None:
        """Remove the taints, so that the remaining pods may stay."""
        self._taint(())

    def _pod(self, name: str) -> JSON:
        tolerations = []
        for key in ("x", "y"):
            if self._rng.random() < 3 / 4:
                each: JSON = {"key": key, "operator": "Exists", "effect": "NoExecute"}
                seconds = self._rng.choice(_SECONDS)
                if seconds is not None:
                    each["tolerationSeconds"] = seconds
                tolerations.append(each)
        return {
            "metadata": {"name": name},
            "spec": {
                "nodeName": NODE_NAME,
                "containers": [{"name": "c", "image": "app:v1"}],
                "tolerations": tolerations,
            },
        }

    def _taint(self, keys: tuple[str, ...]) -> None:
        now = format_time(self.world.clock.now())
        node = self.world.find("nodes", "", NODE_NAME)

        def edit(obj: JSON) -> None:
            others = [
                each
                for each in obj["spec"].get("taints") or ()
                if each["key"] not in ("x", "y")
            ]
            obj["spec"]["taints"] = [
                *others,
                *(
                    {"key": key, "effect": "NoExecute", "timeAdded": now}
                    for key in keys
                ),
            ]

        if node is not None:
            self.world.change("nodes", node, edit)
