"""A deliberate bug.

A controller has its own bugs in a module ``bugs`` beside its tests, in ``BUGS``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass(frozen=True, slots=True)
class Bug:
    """An attribute of the product, and its faulty replacement."""

    seed: int
    """A seed that found the bug when this was written, 0 if a scenario finds it."""

    owner: Any
    name: str
    replacement: Any
    scenario: str = ""
    """The scenario that finds the bug, by its name in `scenarios`."""

    users: frozenset[str] | None = None
    """The controllers whose users act; `None` leaves the choice to the seed.

    If a controller's own bug says nothing, the users of that controller act.
    """

    @contextmanager
    def planted(self) -> Iterator[None]:
        with mock.patch.object(self.owner, self.name, self.replacement):
            yield
