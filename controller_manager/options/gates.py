"""Upstream's feature gates that change what the controllers of this build do.

Names, stages, defaults, locks and dependencies are those of Kubernetes 1.36.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Stage = Literal["ALPHA", "BETA"]


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate that works in both positions.

    `attribute` is its name in `FeatureGates`. A gate cannot be enabled while one
    that it `depends_on` is disabled.
    """

    name: str
    attribute: str
    stage: Stage = "BETA"
    default: bool = True
    depends_on: tuple[str, ...] = ()


GATES: Final = (
    Gate("AtomicFIFO", "atomic_fifo"),
    Gate(
        "DeploymentReplicaSetTerminatingReplicas",
        "deployment_replica_set_terminating_replicas",
    ),
    Gate("PodDeletionCost", "pod_deletion_cost"),
    Gate(
        "StaleControllerConsistencyReplicaSet",
        "stale_controller_consistency_replica_set",
        depends_on=("AtomicFIFO",),
    ),
    Gate("WatchListClient", "watch_list_client"),
)

LOCKED: Final[Mapping[str, bool]] = {
    "LogarithmicScaleDown": True,
    "OrderedNamespaceDeletion": True,
    "PodObservedGenerationTracking": True,
}
"""Gates that exist still and have one position left."""

_ALL: Final[Mapping[str, Stage]] = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}


@dataclass(slots=True)
class Settled:
    """What the given gates come to.

    `enabled` has the position of each gate by its attribute; `ignored` are given
    gates without an effect; `problems` are one line each.
    """

    enabled: dict[str, bool]
    ignored: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def settle(given: Mapping[str, bool]) -> Settled:
    """Return the position of every gate, as component-base's featuregate does.

    ``AllAlpha`` and ``AllBeta`` move the gates of their stage that are not given
    themselves. A locked gate can only be given as it is locked.
    """
    stages = {gate.stage for gate in GATES}
    by_stage = {_ALL[name]: value for name, value in given.items() if name in _ALL}
    positions = {
        gate.name: given.get(gate.name, by_stage.get(gate.stage, gate.default))
        for gate in GATES
    }
    return Settled(
        enabled={gate.attribute: positions[gate.name] for gate in GATES},
        ignored=[
            name
            for name in given
            if name not in positions
            and name not in LOCKED
            and _ALL.get(name) not in stages
        ],
        problems=[*_moved_though_locked(given), *_without_dependency(positions)],
    )


def _moved_though_locked(given: Mapping[str, bool]) -> Iterator[str]:
    for name, value in given.items():
        if LOCKED.get(name, value) != value:
            yield (
                f"cannot set {name} to {_text(value)}: Kubernetes 1.36 has locked it "
                f"to {_text(LOCKED[name])}; leave it out"
            )


def _without_dependency(positions: Mapping[str, bool]) -> Iterator[str]:
    for gate in GATES:
        for other in gate.depends_on:
            if positions[gate.name] and not positions[other]:
                yield (
                    f"{gate.name} is enabled, but depends on {other}, which is "
                    f"disabled; set {gate.name}=false as well"
                )


def describe() -> str:
    """Return the lines of the help text, one for each gate."""
    return "\n".join(
        f"{name}=true|false ({stage} - default={_text(default)})"
        for name, stage, default in (
            ("AllBeta", "BETA", False),
            *((gate.name, gate.stage, gate.default) for gate in GATES),
        )
    )


def _text(value: bool) -> str:  # noqa: FBT001 - the value itself, not a switch
    return "true" if value else "false"
