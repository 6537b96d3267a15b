"""The form of a deliberate bug.

A controller has its own in a module ``bugs`` beside its tests, in ``BUGS``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass(frozen=True, slots=True)
class Bug:
    """Something of the product, and what to put in its place."""

    seed: int
    """One that caught it when this was written, 0 if a scenario is to catch it."""

    owner: Any
    name: str
    replacement: Any
    scenario: str = ""
    """What brings it about, by its name in `scenarios`."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with mock.patch.object(self.owner, self.name, self.replacement):
            yield
