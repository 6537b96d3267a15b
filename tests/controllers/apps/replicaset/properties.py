"""The properties of the replica set controller."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.simulation.changes import only
from tests.simulation.objects import lives
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State

MEMORY: Final = 700.0
"""Seconds for which a manager may still act on a former number of wanted pods.

A watch may lag for five minutes, or fall silent, which is noticed after three more.
"""


@dataclass
class Wanted:
    """The numbers of pods that were wanted, for as long as they matter."""

    history: deque[tuple[float, int]] = field(default_factory=deque)
    ever: int = 0
    """The highest number that was ever wanted."""

    def note(self, at: float, number: int) -> None:
        self.ever = max(self.ever, number)
        if not self.history or self.history[-1][1] != number:
            self.history.append((at, number))

    def most(self, at: float) -> int:
        """Return the highest number that was wanted recently, or is wanted now."""
        while len(self.history) > 1 and self.history[1][0] < at - MEMORY:
            self.history.popleft()
        return max((number for _, number in self.history), default=0)


class ReplicaSetProperties(Properties):
    """No replica set gets more pods than it wanted recently."""

    controller = "replicaset-controller"
    may_write = (
        AllowedWrite(("create", "delete"), "pods"),
        AllowedWrite(("patch",), "pods", only(("metadata", "ownerReferences"))),
        AllowedWrite(("update",), "replicasets/status", only(("status",))),
    )

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._wanted: dict[str, Wanted] = {}

    def before_write(self) -> None:
        """Record the wanted number before a change."""
        now = asyncio.get_running_loop().time()
        for replica_set in self.state.stored("replicasets"):
            wanted = self._wanted.setdefault(replica_set["metadata"]["uid"], Wanted())
            wanted.note(now, replica_set["spec"]["replicas"])

    def after_write(self, write: Write) -> Iterator[str]:
        # A stopped process cannot take back a request that a slow webhook delays.
        if write.verb != "create" or write.target.plural != "pods" or write.is_late:
            return
        owners = write.answered["metadata"].get("ownerReferences", [])
        uids = {owner["uid"] for owner in owners}
        now = asyncio.get_running_loop().time()
        for replica_set in self.state.stored("replicasets"):
            uid = replica_set["metadata"]["uid"]
            if uid in uids:
                yield from self._surplus(replica_set, self._wanted[uid].most(now))

    def broken_invariants(self) -> Iterator[str]:
        """Yield replica sets that have more pods than they ever wanted."""
        self.before_write()
        for replica_set in self.state.stored("replicasets"):
            uid = replica_set["metadata"]["uid"]
            yield from self._surplus(replica_set, self._wanted[uid].ever)

    def _surplus(self, replica_set: JSON, most: int) -> Iterator[str]:
        metadata = replica_set["metadata"]
        live = sum(lives(each, metadata["uid"]) for each in self.state.stored("pods"))
        if live > most:
            yield (
                f"{metadata['name']} owns {live} live pods and never wanted more "
                f"than {most}"
            )


PROPERTIES = ReplicaSetProperties
