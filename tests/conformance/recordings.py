"""The recordings of the real kube-controller-manager 1.36.2.

One directory a family, ``tests/data/recordings/FAMILY``: a file a scenario, and in
``ARGS`` the flags with which the real manager ran.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from controller_manager.client.transport import Transport
from controller_manager.clock import Clock
from controller_manager.options.config import Config
from tests.clusters import RecordingTransport, Write, make_config
from tests.conformance.normalise import comparable
from tests.conformance.player import Player

JSON = dict[str, Any]

DIRECTORY: Final = Path(__file__).parents[1] / "data" / "recordings"


@dataclass(frozen=True)
class Recording:
    """One recorded scenario."""

    path: Path

    @property
    def name(self) -> str:
        """Its name, which is that of its namespace, too."""
        return self.path.stem

    @property
    def family(self) -> str:
        """The name of its directory: what was recorded together."""
        return self.path.parent.name

    @cached_property
    def _content(self) -> JSON:
        content: JSON = json.loads(self.path.read_text())
        return content

    @property
    def steps(self) -> list[JSON]:
        """What users and nodes do."""
        steps: list[JSON] = self._content["steps"]
        return steps

    @property
    def controllers(self) -> tuple[str, ...]:
        """Which controllers of the real manager ran, as ``--controllers`` has it.

        Raises ValueError for a flag in ARGS that the player cannot set.
        """
        selection: tuple[str, ...] = ("*",)
        for flag in shlex.split((self.path.parent / "ARGS").read_text()):
            name, _, value = flag.partition("=")
            if name != "--controllers":
                msg = f"recordings/{self.family}/ARGS: the player cannot set {name}"
                raise ValueError(msg)
            selection = tuple(value.split(","))
        return selection

    def config(self, **generic: Any) -> Config:
        """Return a config with the controllers that ran; `generic` changes it."""
        return make_config(controllers=self.controllers, **generic)

    def player(
        self,
        transport: Transport,
        clock: Clock,
        **patience: float,
    ) -> Player:
        """Return who plays the steps; `patience` as Player takes it, in seconds."""
        kinds: Sequence[str] = self._content.get("kinds", ())
        return Player(transport, self.name, clock, kinds=kinds, **patience)

    def expected(self) -> list[JSON]:
        """Return the checkpoints, without what upstream does not repeat itself."""
        return [
            {
                "check": each["check"],
                "state": {
                    kind: entries
                    for kind, entries in comparable(each["state"]).items()
                    if entries
                },
            }
            for each in self._content["checkpoints"]
        ]

    def most_writes(self) -> int:
        """Return the recorded writes plus 10 %, at least two."""
        recorded = len(self._content["writes"])
        return recorded + max(2, recorded // 10)

    def writes_of(self, transport: RecordingTransport) -> list[Write]:
        """Return what was written in the scenario's namespace, or to it."""
        where = f"/namespaces/{self.name}"
        return [each for each in transport.writes if where in each.path]


def find_recordings(directory: Path = DIRECTORY) -> Mapping[str, Recording]:
    """Return all recordings of all families by name; no two may have the same."""
    paths = sorted(directory.glob("*/*.json"))
    found = {path.stem: Recording(path) for path in paths}
    assert len(found) == len(paths)
    return found


RECORDINGS: Final = find_recordings()
