"""The controllers that do not run in the preview, and their traces on the server.

An object says who created it: by its managing owner, and by the manager of its fields.
An evicted pod has the reason in a condition. So a controller that runs only in the
manager in charge is found, although the preview wants to undo none of its writes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import object_at, objects_at
from controller_manager.api.scalars import parse_time
from controller_manager.clock import Clock
from controller_manager.version import NAME

from .contents import controller_of, controller_uid, identity_of
from .fields import JSON
from .findings import Difference, Findings
from .target import Collection, Target


class Owner(Struct, frozen=True):
    """The objects of one resource that one controller owns, by its uid."""

    collection: Collection
    namespace: str
    uid: str


def owner_of(target: Target, obj: JSON) -> Owner:
    """Return the objects of the same resource and owner as an object."""
    return Owner(target.collection, target.namespace, controller_uid(obj))


class _Made(Struct):
    at: float
    target: Target
    obj: JSON


class Ledger:
    """Creations and deletions on the server, for the grace time, a limited number."""

    def __init__(self, clock: Clock, *, grace: float, most: int) -> None:
        """Start empty; `grace` is in seconds, `most` the number that is kept."""
        self._clock = clock
        self._grace = grace
        self._most = most
        self._known: OrderedDict[str, None] = OrderedDict()
        self._made: OrderedDict[str, _Made] = OrderedDict()
        self._ended: OrderedDict[str, tuple[float, Owner]] = OrderedDict()

    def is_first(self, event: str) -> bool:
        """Tell whether an event is seen for the first time; several watches show it."""
        if event in self._known:
            return False
        self._known[event] = None
        if len(self._known) > 4 * self._most:
            self._known.popitem(last=False)
        return True

    def add_made(self, uid: str, target: Target, obj: JSON) -> None:
        """Record an object that was created on the server."""
        self._made[uid] = _Made(self._clock.monotonic(), target, obj)
        if len(self._made) > self._most:
            self._made.popitem(last=False)

    def take_made(
        self, is_match: Callable[[Target, JSON], bool]
    ) -> tuple[Target, JSON] | None:
        """Return a recorded object that matches, and forget it; None for none."""
        oldest = self._clock.monotonic() - self._grace
        for uid, made in list(self._made.items()):
            if made.at < oldest:
                del self._made[uid]
            elif is_match(made.target, made.obj):
                del self._made[uid]
                return made.target, made.obj
        return None

    def add_ended(self, uid: str, owner: Owner) -> None:
        """Record that the server has deleted an object of an owner."""
        self._ended[uid] = self._clock.monotonic(), owner
        if len(self._ended) > self._most:
            self._ended.popitem(last=False)

    def take_ended(self, owner: Owner) -> bool:
        """Tell whether the server has deleted an object of an owner; forget one."""
        oldest = self._clock.monotonic() - self._grace
        for uid, (at, deleted_of) in list(self._ended.items()):
            if at < oldest:
                del self._ended[uid]
            elif deleted_of == owner:
                del self._ended[uid]
                return True
        return False


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
