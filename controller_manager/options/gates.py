"""Upstream's feature gates that change what this build does.

Names, stages, defaults, locks and dependencies are those of Kubernetes 1.36, or of an
earlier version that is emulated. Upstream: component-base/featuregate, and
component-base/compatibility/registry.go and version.go.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from controller_manager.version import KUBERNETES_VERSION

from .upstream_gates import DEPENDENCIES, GateSpec, known_gates

THIS_MINOR: Final = int(KUBERNETES_VERSION.split(".")[1])
"""The minor version of Kubernetes 1 that this build reproduces."""

_COMPONENT: Final = "kube"
_OLDEST: Final = THIS_MINOR - 3
_VERSION: Final = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.0+)?")


def minor_version(entries: Sequence[str], newest: int = THIS_MINOR) -> int:
    """Return the minor version that the entries of a flag name, `newest` for none.

    An entry is a version of Kubernetes 1, with or without ``kube=`` and ``v`` before
    it. Raises ValueError for another component, for two versions, and for a version
    that is not from the oldest that can be emulated to `newest`.
    """
    minors = [_minor(entry, newest) for entry in entries]
    if len(minors) > 1:
        first, second = (f"{_COMPONENT}=1.{minor}" for minor in minors[:2])
        msg = f"duplicate version flag, {first} and {second}"
        raise ValueError(msg)
    return minors[0] if minors else newest


def _minor(entry: str, newest: int) -> int:
    component, equals, version = (part.strip() for part in entry.partition("="))
    if not equals:
        component, version = _COMPONENT, component
    if component != _COMPONENT:
        msg = f"component not registered: {component}"
        raise ValueError(msg)
    found = _VERSION.fullmatch(version)
    if found is None or found[1] != "1" or not _OLDEST <= int(found[2]) <= newest:
        msg = f"{entry!r} is not a version from 1.{_OLDEST} to 1.{newest}"
        raise ValueError(msg)
    return int(found[2])


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

COMPONENT_FLAGZ: Final = Gate("ComponentFlagz")
"""The server shows its flags under /flagz."""

COMPONENT_STATUSZ: Final = Gate("ComponentStatusz")
"""The server shows its versions and paths under /statusz."""

COORDINATED_ELECTION: Final = Gate("CoordinatedLeaderElection", default=False)
"""The API server chooses the leader among the managers that are candidates."""

LOGGING_ALPHA: Final = Gate("LoggingAlphaOptions", "ALPHA", default=False)
"""The flags of logs that are alpha upstream may be given."""

GENERAL_GATES: Final = (
    ATOMIC_FIFO,
    COMPONENT_FLAGZ,
    COMPONENT_STATUSZ,
    COORDINATED_ELECTION,
    LOGGING_ALPHA,
    WATCH_LIST_CLIENT,
)
"""The gates of no particular controller; a controller declares its own gates."""


class FeatureGates(Struct, frozen=True):
    """The gates with another value than their default, by name."""

    overrides: Mapping[str, bool] = field(default_factory=dict)

    def is_enabled(self, gate: Gate) -> bool:
        """Tell whether a gate is enabled."""
        return self.overrides.get(gate.name, gate.default)


ALL_OF_STAGE: Final[Mapping[str, Stage]] = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
"""The stages of the gates that set all gates of a stage."""


class ResolvedGates(Struct):
    """The result of `resolve_gates`.

    `ignored` are given gates without an effect. `warnings` and `problems` have a line
    for each.
    """

    gates: FeatureGates
    ignored: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def resolve_gates(
    given: Mapping[str, bool], gates: Sequence[Gate], minor: int = THIS_MINOR
) -> ResolvedGates:
    """Return the value of every gate, as component-base's featuregate does.

    `gates` are those that have an effect in this build. Defaults, stages and locks are
    those of Kubernetes 1.`minor`, which may be an earlier version to emulate.
    ``AllAlpha`` and ``AllBeta`` set the gates of their stage that are not given
    themselves. Problems: a gate that nothing knows, a value that a gate cannot have in
    that version, and a gate that is enabled without one that it depends on.
    """
    specs = gate_specs(gates, minor)
    dependencies = {**{gate.name: gate.depends_on for gate in gates}, **DEPENDENCIES}
    values = values_of(given, specs)
    problems = list(_refused(given, specs, minor))
    ours = {gate.name: gate.default for gate in gates}
    return ResolvedGates(
        gates=FeatureGates(
            {name: values[name] for name in ours if values[name] != ours[name]}
        ),
        ignored=[name for name in given if name in specs and name not in ours],
        warnings=list(_warnings(given, values, specs, minor)),
        problems=problems or list(_without_dependency(dependencies, values)),
    )


def gate_specs(gates: Iterable[Gate], minor: int) -> dict[str, GateSpec]:
    """Return the gates of upstream and of this build, by name.

    `gates` are those of this build. Upstream's are as in Kubernetes 1.`minor`.
    """
    return {**{gate.name: _spec(gate) for gate in gates}, **known_gates(minor)}


def values_of(
    given: Mapping[str, bool], specs: Mapping[str, GateSpec]
) -> dict[str, bool]:
    """Return the value of each gate: the given one, that of its stage, its default."""
    by_stage: dict[str, bool] = {
        ALL_OF_STAGE[name]: value
        for name, value in given.items()
        if name in ALL_OF_STAGE
    }
    return {
        name: given.get(name, by_stage.get(spec.stage, spec.default))
        for name, spec in specs.items()
    }


def _spec(gate: Gate) -> GateSpec:
    stage = "GA" if gate.locked else gate.stage
    return GateSpec(stage, default=gate.default, locked=gate.locked)


def _refused(
    given: Mapping[str, bool], specs: Mapping[str, GateSpec], minor: int
) -> Iterator[str]:
    for name, value in given.items():
        if name in ALL_OF_STAGE:
            continue
        spec = specs.get(name)
        if spec is None:
            yield f"unrecognized feature gate: {name}{_hint(name, specs)}"
        elif spec.locked and spec.default != value:
            yield (
                f"cannot set feature gate {name} to {_text(value)}, feature is locked "
                f"to {_text(spec.default)}"
            )
        elif spec.stage == "PREALPHA":
            yield (
                f"cannot set feature gate {name} to {_text(value)}, feature is "
                f"PreAlpha at emulated version 1.{minor}"
            )


def _hint(name: str, specs: Mapping[str, GateSpec]) -> str:
    close = difflib.get_close_matches(name, specs, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _warnings(
    given: Mapping[str, bool],
    values: Mapping[str, bool],
    specs: Mapping[str, GateSpec],
    minor: int,
) -> Iterator[str]:
    """Yield upstream's warnings of gates that have come of age, or are too young."""
    words: dict[str, str] = {"GA": "GA", "DEPRECATED": "deprecated"}
    for name, value in given.items():
        if name in specs and (word := words.get(specs[name].stage)):
            yield (
                f"Setting {word} feature gate {name}={_text(value)}. It will be "
                "removed in a future release."
            )
    enabled = [
        name for name, spec in specs.items() if spec.stage == "ALPHA" and values[name]
    ]
    if enabled and minor != THIS_MINOR:
        yield (
            "component has alpha features enabled in emulated version, this is "
            f"unsupported: features=[{' '.join(sorted(enabled))}]"
        )


def _without_dependency(
    dependencies: Mapping[str, tuple[str, ...]], values: Mapping[str, bool]
) -> Iterator[str]:
    for name, needed in sorted(dependencies.items()):
        disabled = [other for other in needed if not values.get(other, False)]
        if values[name] and disabled:
            yield (
                f"{name} is enabled, but depends on features that are disabled: "
                f"[{' '.join(disabled)}]"
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


def gate_values(
    gates: Iterable[Gate],
    features: FeatureGates,
    given: Mapping[str, bool],
    minor: int,
) -> dict[tuple[str, str], bool]:
    """Return whether each gate is enabled, by its name and its stage.

    `gates` have an effect in this build, and `features` has their values. All other
    gates of upstream have the value that ``--feature-gates`` gives them (`given`), or
    their default in Kubernetes 1.`minor`. Upstream: component-base
    featuregate.AddMetrics of 1.36: a gate that is younger than 1.`minor` is left out,
    and the stage of a gate that is generally available is empty.
    """
    ours = {gate.name: gate for gate in gates}
    specs = gate_specs(ours.values(), minor)
    values = values_of(given, specs)
    values |= {name: features.is_enabled(gate) for name, gate in ours.items()}
    found: dict[tuple[str, str], bool] = {
        (name, "" if spec.stage == "GA" else spec.stage): values[name]
        for name, spec in specs.items()
        if spec.stage != "PREALPHA"
    }
    return found | {
        (name, stage): given.get(name, False) for name, stage in ALL_OF_STAGE.items()
    }
