"""Upstream's feature gates that change what this build does.

Names, stages, defaults, locks and dependencies are those of Kubernetes 1.36.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

Stage = Literal["ALPHA", "BETA"]


class Gate(Struct, frozen=True):
    """A feature gate.

    It cannot be enabled while a gate that it `depends_on` is disabled. A `locked` gate
    can only have its default.
    """

    name: str
    stage: Stage = "BETA"
    default: bool = True
    depends_on: tuple[str, ...] = ()
    locked: bool = False


ATOMIC_FIFO: Final = Gate("AtomicFIFO")
"""A list replaces the content of a cache atomically."""

WATCH_LIST_CLIENT: Final = Gate("WatchListClient")
"""Initial lists are streamed by the watch."""

LOGGING_ALPHA: Final = Gate("LoggingAlphaOptions", "ALPHA", default=False)
"""The flags of logs that are alpha upstream may be given."""

GENERAL_GATES: Final = (ATOMIC_FIFO, LOGGING_ALPHA, WATCH_LIST_CLIENT)
"""The gates of no particular controller; a controller declares its own gates."""


class FeatureGates(Struct, frozen=True):
    """The gates with another value than their default, by name."""

    overrides: Mapping[str, bool] = field(default_factory=dict)

    def is_enabled(self, gate: Gate) -> bool:
        """Tell whether a gate is enabled."""
        return self.overrides.get(gate.name, gate.default)


_ALL: Final[Mapping[str, Stage]] = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}


class ResolvedGates(Struct):
    """The result of `resolve_gates`.

    `ignored` are given gates without an effect; `problems` has a line for each.
    """

    gates: FeatureGates
    ignored: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def resolve_gates(given: Mapping[str, bool], gates: Sequence[Gate]) -> ResolvedGates:
    """Return the value of every gate, as component-base's featuregate does.

    ``AllAlpha`` and ``AllBeta`` set the gates of their stage that are not given
    themselves. A locked gate can only be set to its default.
    """
    free = [gate for gate in gates if not gate.locked]
    locked = {gate.name: gate.default for gate in gates if gate.locked}
    stages = {gate.stage for gate in free}
    by_stage = {_ALL[name]: value for name, value in given.items() if name in _ALL}
    positions = {
        gate.name: given.get(gate.name, by_stage.get(gate.stage, gate.default))
        for gate in free
    }
    defaults = {gate.name: gate.default for gate in free}
    return ResolvedGates(
        gates=FeatureGates(dict(positions.items() - defaults.items())),
        ignored=[
            name
            for name in given
            if name not in positions
            and name not in locked
            and _ALL.get(name) not in stages
        ],
        problems=[
            *_moved_though_locked(given, locked),
            *_without_dependency(free, positions),
        ],
    )


def _moved_though_locked(
    given: Mapping[str, bool], locked: Mapping[str, bool]
) -> Iterator[str]:
    for name, value in given.items():
        if locked.get(name, value) != value:
            yield (
                f"cannot set {name} to {_text(value)}: Kubernetes 1.36 has locked it "
                f"to {_text(locked[name])}; leave it out"
            )


def _without_dependency(
    gates: Iterable[Gate], positions: Mapping[str, bool]
) -> Iterator[str]:
    for gate in gates:
        for other in gate.depends_on:
            if positions[gate.name] and not positions[other]:
                yield (
                    f"{gate.name} is enabled, but depends on {other}, which is "
                    f"disabled; set {gate.name}=false as well"
                )


def describe(gates: Iterable[Gate]) -> str:
    """Return the lines of the help text, one for each gate."""
    free = sorted((gate for gate in gates if not gate.locked), key=lambda it: it.name)
    return "\n".join(
        f"{name}=true|false ({stage} - default={_text(default)})"
        for name, stage, default in (
            ("AllBeta", "BETA", False),
            *((gate.name, gate.stage, gate.default) for gate in free),
        )
    )


def _text(value: bool) -> str:  # noqa: FBT001 - the value itself, not a switch
    return "true" if value else "false"
