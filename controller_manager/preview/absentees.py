"""The controllers that do not run in the preview, and their traces on the server.

An object says who created it: by its managing owner, and by the manager of its fields.
An evicted pod has the reason in a condition. So a controller that runs only in the
manager in charge is found, although the preview wants to undo none of its writes.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import object_at, objects_at
from controller_manager.api.scalars import parse_time
from controller_manager.clock import Clock
from controller_manager.version import NAME

from .contents import controller_of, identity_of
from .fields import JSON
from .findings import Difference, Findings
from .ledger import Ledger
from .target import Target

_MANAGERS: Final = frozenset(("kube-controller-manager", NAME))
"""The field managers of controller managers: the first part of their user agents."""


class Absentee(Struct, frozen=True):
    """A controller that does not run in the preview.

    `makes` has the group resource and the kind of the managing owner of the objects
    that it creates, `evicts_as` the reason of the condition DisruptionTarget of the
    pods that it deletes, empty for none.
    """

    name: str
    makes: tuple[tuple[str, str], ...] = ()
    evicts_as: str = ""


class Absentees:
    """Reports what controllers have done that run only in the manager in charge."""

    def __init__(
        self,
        absent: Iterable[Absentee],
        findings: Findings,
        ledger: Ledger,
        clock: Clock,
        *,
        grace: float,
    ) -> None:
        """Take the controllers; older traces than twice `grace` seconds are history."""
        known = tuple(absent)
        self._makers = {made: each.name for each in known for made in each.makes}
        self._evictors = {each.evicts_as: each.name for each in known if each.evicts_as}
        self._findings = findings
        self._ledger = ledger
        self._clock = clock
        self._oldest = 2 * grace

    def observe(self, target: Target, obj: JSON, *, is_new: bool) -> None:
        """Look at an object of the server, which may have just been added."""
        if is_new and self._makers:
            self._observe_creation(target, obj)
        if self._evictors and target.collection.group_resource == "pods":
            self._observe_eviction(target, obj)

    def _observe_creation(self, target: Target, obj: JSON) -> None:
        owner = controller_of(obj)
        made = (target.collection.group_resource, str((owner or {}).get("kind")))
        controller = self._makers.get(made)
        metadata = object_at(obj, "metadata")
        if controller is None or not _was_made_by_a_manager(metadata):
            return
        if self._is_recent(metadata.get("creationTimestamp")) and self._ledger.is_first(
            f"made {metadata.get('uid')}"
        ):
            identity = identity_of(target, obj)
            self._report(controller, "create", _kind_of(target, obj), identity)

    def _observe_eviction(self, target: Target, obj: JSON) -> None:
        for each in objects_at(object_at(obj, "status"), "conditions"):
            if (each.get("type"), each.get("status")) != ("DisruptionTarget", "True"):
                continue
            controller = self._evictors.get(str(each.get("reason")))
            uid = object_at(obj, "metadata").get("uid")
            if (
                controller is not None
                and self._is_recent(each.get("lastTransitionTime"))
                and self._ledger.is_first(f"evicted {uid}")
            ):
                self._report(controller, "delete", "Pod", str(target.key))

    def _report(self, controller: str, verb: str, kind: str, identity: str) -> None:
        difference = Difference(controller, kind, verb, "real", identity)
        self._findings.report(difference, is_certain=True)

    def _is_recent(self, timestamp: object) -> bool:
        try:
            at = parse_time(str(timestamp or ""))
        except ValueError:
            return False
        return (self._clock.now() - at).total_seconds() <= self._oldest


def _was_made_by_a_manager(metadata: JSON) -> bool:
    """Tell whether a controller manager has created an object, by its fields."""
    return any(
        each.get("manager") in _MANAGERS and not each.get("subresource")
        for each in objects_at(metadata, "managedFields")
    )


def _kind_of(target: Target, obj: JSON) -> str:
    """Return the kind of an object; its metadata alone has another one."""
    kind = str(obj.get("kind", ""))
    partial = ("", "PartialObjectMetadata")
    return target.collection.group_resource if kind in partial else kind
