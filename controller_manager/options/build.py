"""What this build of the program has, as far as flags and files depend on it."""

from collections.abc import Iterable
from typing import Any, Protocol

from controller_manager.options.flag_set import FlagSet
from controller_manager.options.gates import Gate


class Build(Protocol):
    """The controllers of a build, seen from below: the registry is one."""

    @property
    def flags(self) -> FlagSet:
        """All flags."""

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The feature gates that have an effect."""

    @property
    def options(self) -> tuple[type[Any], ...]:
        """The options classes of all controllers."""

    @property
    def names(self) -> list[str]:
        """The names of the controllers."""

    def check_selection(self, selection: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return problems and warnings about the entries of ``--controllers``."""
