"""Users who cordon nodes, and kubelets that post troubles."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


_GOOD: Final = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False"}
"""The conditions of a node without troubles."""

_SINCE: Final = "lastTransitionTime"


class NodeUsers(Workload):
    """Users who cordon nodes, and kubelets whose nodes have troubles for some time."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"users of nodes {world.seed}")

    async def use(self, operations: int) -> None:
        rng = self._rng
        for _ in range(operations):
            await asyncio.sleep(rng.uniform(1, 60))
            rng.choice(_CHANGES)(self, rng.choice(self._names()), rng)

    async def clean_up(self) -> None:
        """End all troubles."""
        for name in self._names():
            self.post(name, {})
            self._edit(name, lambda obj: obj["spec"].pop("unschedulable", None))

    def _names(self) -> list[str]:
        """Return the nodes that have a kubelet, which labels them."""
        metadata = (each["metadata"] for each in self.world.stored("nodes"))
        return [each["name"] for each in metadata if each.get("labels")]

    def post(self, name: str, troubles: Mapping[str, str]) -> None:
        """Post the conditions of a node, as its kubelet does."""
        now = format_time(self.world.clock.now())

        def edit(node: JSON) -> None:
            posted = {e["type"]: e for e in node["status"].get("conditions", ())}
            for kind, status in (_GOOD | dict(troubles)).items():
                known = posted.get(kind, {})
                is_same = known.get("status") == status
                posted[kind] = {
                    "type": kind,
                    "status": status,
                    "lastHeartbeatTime": now,
                    _SINCE: known[_SINCE] if is_same else now,
                }
            node["status"]["conditions"] = list(posted.values())

        self._edit(name, edit, "status")

    def cordon(self, name: str, rng: random.Random) -> None:
        """Cordon a node, or uncordon it."""
        if rng.random() < 1 / 2:
            self._edit(name, lambda obj: obj["spec"].update(unschedulable=True))
        else:
            self._edit(name, lambda obj: obj["spec"].pop("unschedulable", None))

    def trouble(self, name: str, rng: random.Random) -> None:
        """Let a node be not ready, or short of a resource, or healthy again."""
        kind = rng.choice([*_GOOD, ""])
        bad = "False" if kind == "Ready" else "True"
        self.post(name, {kind: bad} if kind else {})

    def relabel(self, name: str, rng: random.Random) -> None:
        """Change a beta label, which the controller corrects."""
        value = rng.choice(["windows", "linux"])
        self._edit(
            name,
            lambda obj: obj["metadata"]["labels"].update(
                {"beta.kubernetes.io/os": value}
            ),
        )

    def _edit(
        self, name: str, edit: Callable[[JSON], Any], subresource: str = ""
    ) -> None:
        node = self.world.find("nodes", "", name)
        if node is not None:
            self.world.change("nodes", node, edit, subresource)


_CHANGES: Final = (NodeUsers.cordon, NodeUsers.trouble, NodeUsers.relabel)
