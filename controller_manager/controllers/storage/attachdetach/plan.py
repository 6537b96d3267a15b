"""Decides about all places of a node, and what its status should list."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import AttachedVolume
from controller_manager.controllers.storage.attachdetach.decide import (
    Do,
    Rules,
    Step,
    decide,
)
from controller_manager.controllers.storage.attachdetach.places import (
    NOTHING,
    Memory,
    NodeView,
    Place,
)

SOON: Final = 0.001
"""The shortest delay in seconds: a shorter one may be lost by rounding."""


class Plan(Struct, frozen=True):
    """The steps of the places by key, and the list for the node's status.

    `listed` is `None` if the status is right. `joining` are the keys of the places that
    it lists newly, `lost` those of places that it no longer lists although pods need
    them: by the cache their volumes are detached.
    """

    steps: Mapping[str, Step]
    listed: tuple[AttachedVolume, ...] | None = None
    joining: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def to_do(self, view: NodeView, do: Do) -> Iterator[tuple[Place, Step]]:
        """Yield the places about whose attachment this is to be done."""
        for key, step in self.steps.items():
            if step.do is do:
                yield view.places[key], step

    def requeue_after(self, now: float) -> float | None:
        """Return in how many seconds to decide again, `None` for not at all."""
        times = [
            each.requeue_at
            for each in self.steps.values()
            if each.requeue_at is not None
        ]
        return max(min(times) - now, SOON) if times else None


def plan(
    view: NodeView, memories: Mapping[str, Memory], now: float, rules: Rules
) -> Plan:
    """Decide about all places of a node.

    Volumes that are attached shortly one after the other join the list together; they
    join at once if the list changes anyway.
    """
    steps = {
        key: decide(place, memories.get(key, NOTHING), view, now, rules)
        for key, place in view.places.items()
    }
    if view.node is None:
        return Plan(steps)
    stay = tuple(
        each for each in view.listed if each.name not in steps or steps[each.name].lists
    )
    waiting = {
        key: each.joins_at for key, each in steps.items() if each.joins_at is not None
    }
    lost = tuple(
        key
        for key, place in view.places.items()
        if place.is_listed and place.volume is not None and not steps[key].lists
    )
    is_shorter = len(stay) < len(view.listed)
    if waiting and (is_shorter or min(waiting.values()) <= now):
        joined = tuple(AttachedVolume(name=key) for key in waiting)
        return Plan(steps, (*stay, *joined), tuple(waiting), lost)
    return Plan(steps, stay if is_shorter else None, lost=lost)
