"""What goes wrong, and how often: drawn from a seed, counted, reducible."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

REQUEST_FAULTS: Final[Mapping[str, float]] = {
    "conflict": 0.01,
    "429": 0.005,
    "500": 0.01,
    "503": 0.01,
    "504": 0.005,
    "reset before": 0.01,
    "reset after": 0.01,
    "hang before": 0.003,
    "hang after": 0.003,
    "slow": 0.03,
}
"""Chances of each request."""

WATCH_FAULTS: Final[Mapping[str, float]] = {
    "cut": 0.01,
    "end": 0.01,
    "silence": 0.003,
    "garbage": 0.005,
    "duplicates": 0.02,
    "gone": 0.005,
    "lag": 0.02,
}
"""Chances of each chunk of a watch."""

WORLD_FAULTS: Final[Mapping[str, float]] = {
    "crash": 0.02,
    "pod deleted": 0.06,
    "pod failed": 0.04,
    "labels edited": 0.02,
    "owner removed": 0.02,
    "replicas edited": 0.02,
    "annotation added": 0.04,
    "status overwritten": 0.02,
    "lease cut off": 0.015,
}
"""Chances of each five seconds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that went wrong; `number` says which opportunity it took."""

    number: int
    kind: str
    what: str
    at: float

    def __str__(self) -> str:
        return f"{self.at:10.3f} s  {self.kind:<20} {self.what}"


@dataclass
class Faults:
    """Decides at each opportunity; `only` allows some of them, by number."""

    rng: random.Random
    only: frozenset[int] | None = None
    active: bool = True
    injected: list[Fault] = field(default_factory=list)
    opportunities: int = 0

    def draw(self, chances: Mapping[str, float], what: str, at: float) -> str | None:
        """Return what goes wrong now, `None` for nothing."""
        self.opportunities += 1
        kind = _chosen(chances, self.rng.random())
        if kind is None or not self.active:
            return None
        if self.only is not None and self.opportunities not in self.only:
            return None
        self.injected.append(Fault(self.opportunities, kind, what, at))
        return kind

    def counts(self) -> Counter[str]:
        """Return how often each kind was injected."""
        return Counter(fault.kind for fault in self.injected)


def _chosen(chances: Mapping[str, float], drawn: float) -> str | None:
    """Return the kind into whose share of 0 to 1 a number falls."""
    for kind, chance in chances.items():
        if drawn < chance:
            return kind
        drawn -= chance
    return None
