"""What the parsing of flags and files must know of the controllers."""

from collections.abc import Iterable
from typing import Protocol

from .controller_options import ControllerOptions
from .flag_set import FlagSet
from .gates import Gate


class KnownControllers(Protocol):
    """The controllers of a build; the registry implements this protocol."""

    @property
    def flags(self) -> FlagSet:
        """All flags."""

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The feature gates that have an effect."""

    @property
    def options(self) -> tuple[type[ControllerOptions], ...]:
        """The options classes of all controllers."""

    @property
    def names(self) -> list[str]:
        """The names of the controllers."""

    def check_selection(self, selection: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return problems and warnings about the entries of ``--controllers``."""
