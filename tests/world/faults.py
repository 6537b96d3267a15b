"""The faults of a run and their frequency: drawn from a seed, counted, reducible."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

REQUEST_FAULTS: Final[Mapping[str, float]] = {
    "conflict": 0.01,
    "429": 0.005,
    "500": 0.01,
    "502 html": 0.003,
    "503": 0.01,
    "504": 0.005,
    "refused by admission": 0.005,
    "reset before": 0.01,
    "reset after": 0.01,
    "hang before": 0.003,
    "hang after": 0.003,
    "garbage after": 0.003,
    "crash before": 0.001,
    "crash after": 0.001,
    "slow": 0.03,
}
"""Chance per request; "after" means after the server has carried it out."""

WATCH_FAULTS: Final[Mapping[str, float]] = {
    "cut": 0.01,
    "end": 0.01,
    "silence": 0.003,
    "garbage": 0.005,
    "duplicates": 0.02,
    "gone": 0.005,
    "no bookmarks": 0.005,
    "lag": 0.02,
}
"""Chance per chunk of a watch."""

MACHINE_FAULTS: Final[Mapping[str, float]] = {
    "crash": 0.03,
    "pause": 0.02,
    "lease cut off": 0.03,
    "takeover in a write": 0.03,
    "resource lags": 0.12,
    "old replica": 0.03,
    "api server restarts": 0.01,
    "api server unreachable": 0.015,
    "slow creates": 0.02,
    "list refused": 0.015,
    "idle streams cut": 0.01,
    "half-open watches": 0.02,
    "clock jumps": 0.02,
}
"""Chance per step of a fault of a machine, a network or an API server."""

STRANGERS: Final[Mapping[str, float]] = {
    "deleted": 0.08,
    "deleted at once": 0.04,
    "failed": 0.03,
    "not ready": 0.03,
    "evicted": 0.04,
    "copied": 0.03,
    "disowned": 0.03,
    "relabelled": 0.03,
    "edited": 0.06,
    "status overwritten": 0.03,
}
"""Chance per step that a stranger changes an object that controllers look after."""

START_FAULTS: Final[Mapping[str, float]] = {"clock skew": 0.2}
"""Chance per start of a manager."""


_FACTORS: Final = (0.0, 0.5, 1.0, 2.5)
"""How often a seed has a kind of faults, compared with all seeds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    `opportunity` names the place and counts its opportunities; `share`, from 0 to
    1, decides all details of the fault.
    """

    opportunity: str
    kind: str
    at: float
    share: float

    def __str__(self) -> str:
        return f"{self.at:10.3f} s  {self.kind:<20} {self.opportunity}"

    @property
    def rng(self) -> random.Random:
        """A random generator of this fault's own."""
        return random.Random(self.share)


@dataclass
class Faults:
    """Decides about each opportunity; `only` limits faults to some opportunities.

    Each decision depends on the seed and the opportunity alone: a plan without one
    fault still has all the other faults.
    """

    seed: int
    only: frozenset[str] | None = None
    active: bool = True
    annoyed: set[object] = field(default_factory=set)
    """Who has waited for too long already: as long as anybody has, no fault happens."""

    injected: list[Fault] = field(default_factory=list)
    _drawn: Counter[str] = field(default_factory=Counter)
    _factors: dict[str, float] = field(default_factory=dict)

    def draw(self, chances: Mapping[str, float], place: str, at: float) -> Fault | None:
        """Return the fault that happens now, `None` if none does."""
        opportunity, choice, share = self._number(place)
        kind = self._chosen(chances, choice)
        if kind is None or not self.active or self.annoyed:
            return None
        if self.only is not None and opportunity not in self.only:
            return None
        fault = Fault(opportunity, kind, at, share)
        self.injected.append(fault)
        return fault

    def noise(self, place: str) -> float:
        """Return a number from 0 to 1 for a variation that is no fault.

        There is none before the first fault, so that a request more of one controller
        changes nothing of what others are recorded to do.
        """
        return self._number(f"noise {place}")[1] if self.active else 0.5

    def _chosen(self, chances: Mapping[str, float], drawn: float) -> str | None:
        """Return the kind whose range, between 0 and 1, contains a number.

        A seed has some kinds of faults often and some never: then they come close
        together, with nothing between that mends what they lead to.
        """
        for kind, chance in chances.items():
            if kind not in self._factors:
                rng = random.Random(f"{self.seed} {kind}")
                self._factors[kind] = rng.choice(_FACTORS)
            if drawn < chance * self._factors[kind]:
                return kind
            drawn -= chance * self._factors[kind]
        return None

    def _number(self, place: str) -> tuple[str, float, float]:
        self._drawn[place] += 1
        opportunity = f"{place} #{self._drawn[place]}"
        digest = blake2b(f"{self.seed}/{opportunity}".encode(), digest_size=16).digest()
        first, second = digest[:8], digest[8:]
        return opportunity, _fraction(first), _fraction(second)

    def counts(self) -> Counter[str]:
        """Return how often each kind of fault was injected."""
        return Counter(fault.kind for fault in self.injected)


def _fraction(digits: bytes) -> float:
    return int.from_bytes(digits, "big") / 2**64
