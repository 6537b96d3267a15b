"""Deliberate bugs of the disruption controller."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.core.v1 import Pod
from controller_manager.api.policy.v1 import PodDisruptionBudget
from controller_manager.api.scalars import IntOrString, scaled_value
from controller_manager.client.rest.client import Client
from controller_manager.controllers.apps.disruption import controller, health
from controller_manager.controllers.apps.disruption.controller import (
    DisruptionReconciler,
)
from controller_manager.controllers.apps.disruption.health import Health
from tests.simulation.planted import Bug

_assess = health.assess
_update = Client.update_for_metadata


def _count_what_is_to_go(
    budget: PodDisruptionBudget, pods: Sequence[Pod], expected: int, now: datetime
) -> Health:
    """Count pods whose eviction was allowed, as long as the cache shows them."""
    innocent = replace(budget, status=replace(budget.status, disrupted_pods=None))
    return _assess(innocent, pods, expected, now)


def _never_look_again(
    budget: PodDisruptionBudget, pods: Sequence[Pod], expected: int, now: datetime
) -> Health:
    found = _assess(budget, pods, expected, now)
    return replace(found, requeue_after=None)


def _round_down(value: IntOrString, total: int, *, round_up: bool) -> int:
    del round_up
    return scaled_value(value, total, round_up=False)


def _take_no_limit_for_a_limit_of_zero(_: PodDisruptionBudget) -> bool:
    return True


def _count_only_new_pods(*_: Any) -> bool:
    return True


async def _overwrite(
    self: Client, resource: Any, obj: Any, subresource: str = ""
) -> Any:
    """Write a status without the version that it was calculated from."""
    if isinstance(obj, PodDisruptionBudget):
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=""))
    return await _update(self, resource, obj, subresource)


BUGS: Final[Mapping[str, Bug]] = {
    "count pods that are to be evicted": Bug(
        0, health, "assess", _count_what_is_to_go, "evictions-that-no-cache-shows"
    ),
    "wait for ever for an evicted pod": Bug(
        0, health, "assess", _never_look_again, "evictions-that-never-come"
    ),
    "overwrite evictions": Bug(
        0,
        Client,
        "update_for_metadata",
        _overwrite,
        "evictions-that-a-status-does-not-know",
    ),
    "miss that a deployment was scaled": Bug(
        0,
        DisruptionReconciler,
        "_add_budgets_of_pods",
        lambda *_: None,
        "a-deployment-that-cannot-grow",
    ),
    "round percentages down": Bug(
        0, health, "scaled_value", _round_down, "evictions-that-a-status-does-not-know"
    ),
    "take no limit for a limit of zero": Bug(
        0,
        health,
        "is_limited",
        _take_no_limit_for_a_limit_of_zero,
        "a-limit-that-is-taken-away",
    ),
    "miss that a pod is not ready": Bug(
        0,
        controller,
        "_count_the_same",
        _count_only_new_pods,
        "a-container-that-crashes",
    ),
}
