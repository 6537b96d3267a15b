"""An entry of the overlay: the writes to one object that are not confirmed yet."""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from .fields import JSON, Path, with_value
from .target import Key, Target

_ENDED_PHASES: Final = ("Succeeded", "Failed")
_DEFAULT_GRACE_PERIOD: Final = 30


@dataclass(slots=True)
class Written:
    """The value that a controller wrote to one field, and when (seconds)."""

    value: Any
    controller: str
    since: float


@dataclass(slots=True)
class Deletion:
    """A deletion by a controller: when, and the state of the object from then on."""

    controller: str
    since: float
    timestamp: str
    grace_period: int


@dataclass(slots=True)
class Creation:
    """A creation by a controller, and the object that the overlay made of it.

    `sent` is the content of the request, `made` the object right after the creation.
    `changed_siblings` is true if the overlay had changes or deletions of other objects
    of its owner then.
    """

    controller: str
    since: float
    sent: JSON
    made: JSON
    current: JSON
    changed_siblings: bool = False


@dataclass(slots=True)
class Entry:
    """The writes to one object that the manager in charge has not made yet.

    `real` is the object as the server had it last, None for a created object.
    `change` is the number of the newest change of the overlay to this object.
    """

    target: Target
    kind: str
    real: JSON | None = None
    creation: Creation | None = None
    fields: dict[Path, Written] = field(default_factory=dict)
    deletion: Deletion | None = None
    change: int = 0
    size: int = 0

    @property
    def key(self) -> Key:
        """The identity of the object."""
        return self.target.key

    @property
    def is_confirmed(self) -> bool:
        """True if no write is left."""
        return not (self.creation or self.fields or self.deletion)

    def since(self) -> float:
        """Return when the oldest write was made."""
        times = [each.since for each in self.fields.values()]
        times += [each.since for each in (self.creation, self.deletion) if each]
        return min(times, default=0.0)

    def measure(self) -> int:
        """Set and return the size of the entry in bytes, about."""
        values = [each.value for each in self.fields.values()]
        made = self.creation and (self.creation.sent, self.creation.current)
        kept = [each for each in values if each is not msgspec.UNSET]
        self.size = 2 * len(msgspec.json.encode([kept, made, self.real])) + 500
        return self.size

    def view(self, real: JSON | None) -> JSON | None:
        """Return a version of the object with the writes; None if it is gone."""
        if self.creation is not None:
            return _living(self.creation.current)
        if real is None:
            return None
        obj = real
        for path, written in self.fields.items():
            obj = with_value(obj, path, written.value)
        if any(path[0] != "metadata" and path[0] != "status" for path in self.fields):
            obj = next_generation(obj, real)
        if self.deletion is not None:
            obj = terminating(obj, self.deletion.timestamp, self.deletion.grace_period)
        return _living(obj)


def next_generation(obj: JSON, former: JSON) -> JSON:
    """Return the object with the generation after that of `former`, if it counts."""
    generation = former.get("metadata", {}).get("generation")
    if not isinstance(generation, int):
        return obj
    metadata = {**obj.get("metadata", {}), "generation": generation + 1}
    return {**obj, "metadata": metadata}


def terminating(obj: JSON, timestamp: str, grace_period: int) -> JSON:
    """Return the object as the server has it once its deletion was requested."""
    metadata = obj.get("metadata", {})
    if metadata.get("deletionTimestamp"):
        return obj
    changed = {
        **metadata,
        "deletionTimestamp": timestamp,
        "deletionGracePeriodSeconds": grace_period,
    }
    deleted = {**obj, "metadata": changed}
    if deleted.get("kind") == "Namespace":
        status = {**deleted.get("status", {}), "phase": "Terminating"}
        deleted["status"] = status
    return deleted


def grace_period_of(obj: JSON, wanted: int | None) -> int:
    """Return the grace period in seconds that the server gives a deleted object."""
    if obj.get("kind") != "Pod":
        return 0
    spec = obj.get("spec", {})
    has_ended = obj.get("status", {}).get("phase") in _ENDED_PHASES
    if has_ended or not spec.get("nodeName"):
        return 0
    if wanted is not None:
        return wanted
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_PERIOD))


def _living(obj: JSON) -> JSON | None:
    """Return the object, None if the server would have removed it."""
    metadata = obj.get("metadata", {})
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return obj
    if obj.get("kind") == "Namespace" and obj.get("spec", {}).get("finalizers"):
        return obj
    return obj if metadata.get("deletionGracePeriodSeconds") else None
