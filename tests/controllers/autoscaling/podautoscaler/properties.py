"""The properties of the horizontal pod autoscaler controller."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.autoscaling.podautoscaler.workload import (
    AutoscalerUsers,
)
from tests.simulation.changes import only
from tests.simulation.objects import path_of
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


MEMORY: Final = 700.0
"""Seconds for which a manager may act on an old spec: a watch may lag for five
minutes, or fall silent, which the manager notices after three more."""

WINDOW: Final = 300.0
"""Seconds for which a recommendation holds back a scaling down, by default."""

_REPLICAS: Final = only(("spec", "replicas"))


@dataclass(frozen=True)
class Target:
    """The target of an autoscaler."""

    namespace: str
    plural: str
    name: str


@dataclass(frozen=True)
class Bounds:
    """The bounds of one autoscaler, and whether it has a behavior."""

    autoscaler: str
    minimum: int
    maximum: int
    has_behavior: bool


@dataclass(frozen=True)
class Raised:
    """The number that the controller raised a target to, and when."""

    at: float
    replicas: int


class AutoscalerProperties(Properties):
    """A target stays within bounds, is not lowered early, and not raised from zero."""

    controller = "horizontal-pod-autoscaler-controller"
    may_write = (
        AllowedWrite(("update",), "deployments/scale", _REPLICAS),
        AllowedWrite(("update",), "replicasets/scale", _REPLICAS),
        AllowedWrite(("update",), "statefulsets/scale", _REPLICAS),
        AllowedWrite(("update",), "replicationcontrollers/scale", _REPLICAS),
        AllowedWrite(("update",), "horizontalpodautoscalers/status", only(("status",))),
    )
    workload = AutoscalerUsers

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._bounds: defaultdict[Target, dict[Bounds, float]] = defaultdict(dict)
        self._set: dict[Target, int] = {}
        self._set_by_hand: dict[Target, float] = {}
        self._raised: dict[Target, Raised] = {}

    def before_write(self) -> None:
        """Note the bounds of all autoscalers, with the time until which they hold."""
        until = _now() + MEMORY
        for autoscaler in self.state.stored("horizontalpodautoscalers"):
            spec = autoscaler["spec"]
            bounds = Bounds(
                path_of(autoscaler),
                spec["minReplicas"],
                spec["maxReplicas"],
                "behavior" in spec,
            )
            self._bounds[_target_of(autoscaler)][bounds] = until

    def after_write(self, write: Write) -> Iterator[str]:
        """Check each number that the controller sets."""
        target = Target(write.target.namespace, write.target.plural, write.target.name)
        if write.controller != self.controller or write.target.subresource != "scale":
            return
        before, after = _replicas(write.before), _replicas(write.after)
        if before != self._set.get(target, before):
            self._set_by_hand[target] = _now()
            self._raised.pop(target, None)
        self._set[target] = after
        if not write.is_late:
            yield from self._wrong_number(target, before, after)
        if after > before and self._is_recommended_now(target, after):
            self._raised[target] = Raised(_now(), after)

    def _is_recommended_now(self, target: Target, after: int) -> bool:
        """Tell whether a raise cannot come from an old recommendation.

        An old one raises the number after a user has set it, or after a user has
        raised a maximum that held it back (seed 7536).
        """
        set_by_hand = _now() <= self._set_by_hand.get(target, -WINDOW) + WINDOW
        return not set_by_hand and all(
            after <= each.maximum for each in self._recent(target)
        )

    def _wrong_number(self, target: Target, before: int, after: int) -> Iterator[str]:
        known = self._recent(target)
        name = f"{target.namespace}/{target.name}"
        if not before:
            yield f"{name}: raised to {after}, though it stood at zero"
        least = min((each.minimum for each in known), default=after + 1)
        most = max((each.maximum for each in known), default=after - 1)
        if not least <= after <= most:
            yield f"{name}: set to {after}, not within {least} and {most}"
        if self._is_early(target, after, known):
            yield f"{name}: lowered from {before} to {after} in the window"

    def _is_early(self, target: Target, after: int, known: list[Bounds]) -> bool:
        """Tell whether a number is lowered that was recommended in the window.

        This is known only if the one autoscaler of the target has raised it, not
        to its minimum, and has no windows of its own.
        """
        raised = self._raised.get(target)
        if raised is None or after >= raised.replicas:
            return False
        is_known = (
            len({each.autoscaler for each in known}) == 1
            and not any(each.has_behavior for each in known)
            and raised.replicas not in {each.minimum for each in known}
        )
        is_cut = after in {each.maximum for each in known}
        return is_known and not is_cut and _now() < raised.at + WINDOW

    def _recent(self, target: Target) -> list[Bounds]:
        now = _now()
        known = self._bounds[target]
        for bounds in [each for each, until in known.items() if until < now]:
            del known[bounds]
        return list(known)

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Yield targets without load that have more replicas than the minimum."""
        del managers
        for autoscaler in self.state.stored("horizontalpodautoscalers"):
            target, spec = _target_of(autoscaler), autoscaler["spec"]
            found = self.state.find(target.plural, target.namespace, target.name)
            if found is not None and _replicas(found) != spec["minReplicas"]:
                yield (
                    f"{path_of(autoscaler)}: {_replicas(found)} replicas without load, "
                    f"not {spec['minReplicas']}"
                )

    def end_state(self) -> JSON:
        """Return the autoscalers as users see them.

        What the metrics say depends on the pods that users have taken from their
        owners: the selectors of the targets still select them.
        """
        return {
            path_of(each): {
                "spec": each["spec"],
                "sizes": [
                    each["status"].get(name)
                    for name in ("currentReplicas", "desiredReplicas")
                ],
                "conditions": sorted(
                    (one["type"], one["status"], one["reason"])
                    for one in each["status"].get("conditions", [])
                ),
            }
            for each in self.state.stored("horizontalpodautoscalers")
        }


def _now() -> float:
    return asyncio.get_running_loop().time()


def _replicas(obj: JSON | None) -> int:
    return int(obj["spec"]["replicas"]) if obj else 0


def _target_of(autoscaler: JSON) -> Target:
    reference = autoscaler["spec"]["scaleTargetRef"]
    plural = f"{reference['kind'].lower()}s"
    return Target(autoscaler["metadata"]["namespace"], plural, reference["name"])


PROPERTIES = AutoscalerProperties
