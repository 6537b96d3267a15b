"""The recordings of the real kube-controller-manager 1.36.2.

Each family has a directory, ``tests/data/recordings/FAMILY``, with one file for each
scenario, and in ``ARGS`` the flags with which the real manager ran.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from controller_manager.cli.flags import make_config as config_from_flags
from controller_manager.client.transport import Transport
from controller_manager.clock import Clock
from controller_manager.options.config import Config
from controller_manager.registry import registry
from tests.clusters import RecordingTransport, Write, make_config
from tests.conformance import normalise, whole
from tests.conformance.normalise import GroupedForm
from tests.conformance.player import Form, Player
from tests.conformance.whole import WholeForm

JSON = dict[str, Any]

DIRECTORY: Final = Path(__file__).parents[1] / "data" / "recordings"

_GROUPED: Final = ("apps", "lifecycle")
"""Families in the first form; all others are in the second."""

_KNOWN_FIELDS: Final = {"name", "about", "kinds", "steps", "checkpoints", "writes"}
"""The fields that a recording may have; a recording with others is refused."""


@dataclass(frozen=True)
class Recording:
    """One recorded scenario."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the scenario, and of its namespace."""
        return self.path.stem

    @property
    def family(self) -> str:
        """The name of its directory: scenarios that were recorded together."""
        return self.path.parent.name

    @cached_property
    def _content(self) -> JSON:
        content: JSON = json.loads(self.path.read_text())
        if unknown := sorted(content.keys() - _KNOWN_FIELDS):
            msg = f"recordings/{self.family}/{self.path.name}: what is {unknown[0]}?"
            raise ValueError(msg)
        return content

    @property
    def steps(self) -> list[JSON]:
        """The steps of users and nodes."""
        steps: list[JSON] = self._content["steps"]
        return steps

    @property
    def settled_after(self) -> float:
        """Seconds without a change after which no more changes come.

        Upstream's checkpoints may be taken while slow controllers wait: in the second
        form for a minute, as the pod garbage collector does.
        """
        return 30.0 if self.family in _GROUPED else 90.0

    def config(self, **generic: Any) -> Config:
        """Return a config with the flags of its family; `generic` changes it.

        The config is for one manager, without rate limits, that serves nothing. Raises
        ValueError for an unknown flag, Failure for an invalid value.
        """
        given: dict[str, list[str]] = {}
        for flag in shlex.split((self.path.parent / "ARGS").read_text()):
            name, _, value = flag.removeprefix("--").partition("=")
            given.setdefault(name, []).append(value)
        flags = config_from_flags(given, [])
        if unknown := sorted(given.keys() - flags.flags.keys()):
            msg = f"recordings/{self.family}/ARGS: --{unknown[0]}: no such flag"
            raise ValueError(msg)
        ours = make_config(controllers=flags.generic.controllers, **generic)
        return replace(
            flags, client=ours.client, generic=ours.generic, serving=ours.serving
        )

    def is_playable(self) -> bool:
        """Tell whether this build has all controllers that its family's ARGS name."""
        _, absent = registry().check_selection(self.config().generic.controllers)
        return not absent

    def _form(self) -> Form:
        kinds: Sequence[str] = self._content.get("kinds", ())
        return GroupedForm(kinds) if self.family in _GROUPED else WholeForm(kinds)

    def player(
        self,
        transport: Transport,
        clock: Clock,
        **patience: float,
    ) -> Player:
        """Return the player of the steps; `patience` as in Player, in seconds."""
        return Player(transport, self.name, clock, self._form(), **patience)

    def expected(self) -> list[JSON]:
        """Return the checkpoints without the parts that upstream does not repeat."""
        return [
            {"check": each["check"], "state": self._comparable(each["state"])}
            for each in self._content["checkpoints"]
        ]

    def _comparable(self, state: JSON) -> JSON:
        if self.family not in _GROUPED:
            return whole.comparable(state)
        entries = normalise.comparable(state)
        return {kind: each for kind, each in entries.items() if each}

    def most_writes(self) -> int:
        """Return the number of recorded writes plus 10 %, at least two."""
        recorded = len(self._content["writes"])
        return recorded + max(2, recorded // 10)

    def writes_of(self, transport: RecordingTransport) -> list[Write]:
        """Return the writes to the scenario's namespace and to objects in it."""
        where = f"/namespaces/{self.name}"
        return [each for each in transport.writes if where in each.path]


def find_recordings(directory: Path = DIRECTORY) -> Mapping[str, Recording]:
    """Return all recordings of all families by name; each name must be unique."""
    paths = sorted(directory.glob("*/*.json"))
    found = {path.stem: Recording(path) for path in paths}
    assert len(found) == len(paths)
    return found


ALL_RECORDINGS: Final = find_recordings()
"""All recordings by name."""

RECORDINGS: Final = {
    name: each for name, each in ALL_RECORDINGS.items() if each.is_playable()
}
"""The recordings that the tests play: those whose controllers are in this build."""
