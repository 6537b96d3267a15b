"""Validation of the counts of replicas in a status."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.validation.field_values import NOT_NEGATIVE

REPLICA_SET_COUNTS: Final = (
    (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ),
    ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
)
"""All counts of replica sets and replication controllers, and the bounded counts."""


def validate_replica_status(
    obj: JSON,
    counts: Sequence[str],
    bounded: Sequence[str],
    unready: str = "cannot be greater than readyReplicas",
) -> list[Cause]:
    """Check the counts of a status.

    None of `counts` may be negative, none of `bounded` greater than ``replicas``.
    `unready` is upstream's message when more replicas are available than ready.
    """
    status = obj.get("status", {})
    causes = [
        invalid(f"status.{name}", shown(status[name]), NOT_NEGATIVE)
        for name in counts
        if status.get(name, 0) < 0
    ]
    for name in bounded:
        if status.get(name, 0) > status.get("replicas", 0):
            value = shown(status.get(name, 0))
            detail = "cannot be greater than status.replicas"
            causes.append(invalid(f"status.{name}", value, detail))
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        value = shown(status.get("availableReplicas", 0))
        causes.append(invalid("status.availableReplicas", value, unready))
    return causes


def validate_collision_count(old: JSON, new: JSON) -> list[Cause]:
    """Check that the count of collisions of names does not decrease."""
    before = old.get("status", {}).get("collisionCount", 0)
    after = new.get("status", {}).get("collisionCount", 0)
    if after >= before:
        return []
    return [invalid("status.collisionCount", shown(after), "cannot be decremented")]
