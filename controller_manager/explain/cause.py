"""Objects as the API server returns them, and causes: the links of a chain.

A chain goes from a symptom to its root.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON, Decoder, object_at, objects_at
from controller_manager.api.meta import AnyResource, KubeObject

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class State(StrEnum):
    """The state of an object, or the part of a cause in it."""

    HEALTHY = "healthy"
    """The object is as its spec wants it. Such a cause is only worth knowing."""

    PROGRESSING = "progressing"
    """The object changes by itself, without anybody's help."""

    STUCK = "stuck"
    """The object stays as it is until somebody, or something else, acts."""


class Reference(Struct, frozen=True, rename="camel"):
    """An object; `namespace` is empty for one of the cluster."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return ``Pod shop/web-0``, or ``Node node-0``."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


@cache
def _decoder(object_type: type[ObjectT]) -> Decoder[ObjectT]:
    return Decoder(object_type)


class Item(Struct, frozen=True):
    """An object, and the resource that it is of.

    The types of the API have only the fields that controllers read. An explanation
    needs others as well, such as the messages of containers; so it reads the JSON form.
    """

    resource: AnyResource
    json: JSON

    def typed(self, object_type: type[ObjectT]) -> ObjectT:
        """Return the object in the form that the controllers read."""
        decoder: Decoder[ObjectT] = _decoder(object_type)
        return decoder.decode(msgspec.json.encode(self.json))

    @property
    def metadata(self) -> JSON:
        """The metadata, as JSON."""
        return object_at(self.json, "metadata")

    @property
    def spec(self) -> JSON:
        """The spec, empty for none."""
        return object_at(self.json, "spec")

    @property
    def status(self) -> JSON:
        """The status, empty for none."""
        return object_at(self.json, "status")

    @property
    def name(self) -> str:
        """The name."""
        return text_at(self.metadata, "name")

    @property
    def namespace(self) -> str:
        """The namespace, empty for an object of the cluster."""
        return text_at(self.metadata, "namespace")

    @property
    def uid(self) -> str:
        """The uid."""
        return text_at(self.metadata, "uid")

    @property
    def created_at(self) -> str:
        """The time of the creation (RFC 3339)."""
        return text_at(self.metadata, "creationTimestamp")

    @property
    def deleted_at(self) -> str:
        """The time of the deletion (RFC 3339), empty unless it is being deleted."""
        return text_at(self.metadata, "deletionTimestamp")

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels, empty for none."""
        return object_at(self.metadata, "labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, empty for none."""
        return object_at(self.metadata, "annotations")

    def cause(
        self,
        code: str,
        what: str,
        field: str = "",
        since: str = "",
        *,
        remedy: str = "",
        state: State = State.STUCK,
    ) -> "Cause":
        """Return a cause that this object shows; see `Cause`."""
        return Cause(
            code=code,
            state=state,
            what=what,
            object=self.reference,
            field=field,
            since=since,
            remedy=remedy,
        )

    @property
    def reference(self) -> Reference:
        """The reference to this object."""
        return Reference(
            self.resource.api_version, self.resource.kind, self.namespace, self.name
        )

    @property
    def controller(self) -> JSON | None:
        """The owner reference of the managing owner, `None` for none."""
        owners = objects_at(self.metadata, "ownerReferences")
        return next((each for each in owners if each.get("controller")), None)

    def is_controlled_by(self, owner: "Item") -> bool:
        """Tell whether another object is the managing owner."""
        found = self.controller
        return found is not None and found.get("uid") == owner.uid

    def conditions(self) -> Iterator[JSON]:
        """Yield the conditions of the status."""
        yield from objects_at(self.status, "conditions")

    def condition(self, name: str) -> JSON | None:
        """Return the condition of a type, `None` if there is none."""
        return next(
            (each for each in self.conditions() if each.get("type") == name), None
        )


def text_at(holder: JSON, name: str) -> str:
    """Return the text in a field, empty if there is none."""
    found = holder.get(name)
    return found if isinstance(found, str) else ""


def number_at(holder: JSON, name: str, default: int = 0) -> int:
    """Return the number in a field, `default` if there is none."""
    found: Any = holder.get(name)
    is_number = isinstance(found, int) and not isinstance(found, bool)
    return found if is_number else default


_ORDER: Final = (State.HEALTHY, State.PROGRESSING, State.STUCK)


class Cause(Struct, frozen=True, kw_only=True, rename="camel"):
    """One link of the chain; those that it follows from are in `because`.

    `code` is stable, for programs. `what` is one sentence without a full stop, and so
    is `remedy`, which is empty if there is nothing to do, or if a cause in `because`
    has one. `field` is the field of `object` that shows the cause. `since` is the time
    since which it holds (RFC 3339), empty if no object has it. `count` is the number of
    objects with the same cause; `object` is the first of them.
    """

    code: str
    state: State
    what: str
    object: Reference
    field: str = ""
    since: str = ""
    count: int = 1
    remedy: str = ""
    because: tuple["Cause", ...] = ()


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer about one object.

    `unread` has a line for each request that was refused or failed: the answer may
    lack causes that only these objects show. `timed_out` says that the time was over
    before everything was read. `not_looked_at` has the objects of a namespace that were
    left out then.
    """

    object: Reference
    state: State
    summary: str
    causes: tuple[Cause, ...] = ()
    unread: tuple[str, ...] = ()
    timed_out: bool = False
    not_looked_at: tuple[Reference, ...] = ()


def counted(number: int, noun: str = "pod") -> str:
    """Return ``1 pod`` or ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def worst(states: Iterable[State]) -> State:
    """Return the worst of some states; healthy for none."""
    return max(states, key=_ORDER.index, default=State.HEALTHY)


def worst_of(causes: Iterable[Cause]) -> State:
    """Return the worst state of some causes; healthy for none."""
    return worst(each.state for each in causes)


def worst_first(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return causes with the worst states first; otherwise the order stays."""
    return tuple(sorted(causes, key=lambda each: -_ORDER.index(each.state)))


def symptom(cause: Cause, because: Sequence[Cause]) -> Cause:
    """Return a cause that follows from others, in their worst state."""
    if not because:
        return cause
    return replace(cause, because=worst_first(because), state=worst_of(because))


def merged(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return causes of like objects as one cause with their number.

    Causes are alike if they differ only in the names of objects and in the times. The
    merged cause has the object that comes first, and the earliest time.
    """
    groups: dict[Cause, list[Cause]] = {}
    for each in causes:
        groups.setdefault(_without_names(each), []).append(each)
    return tuple(map(_as_one, groups.values()))


def _without_names(cause: Cause) -> Cause:
    nobody = replace(cause.object, namespace="", name="")
    name = cause.object.name
    return replace(
        cause,
        what=cause.what.replace(name, ""),
        object=nobody,
        since="",
        count=1,
        remedy=cause.remedy.replace(name, ""),
        because=tuple(map(_without_names, cause.because)),
    )


def _as_one(causes: Sequence[Cause]) -> Cause:
    first = min(causes, key=lambda each: each.object.name)
    times = [each.since for each in causes if each.since]
    return replace(
        first,
        since=min(times, default=""),
        count=sum(each.count for each in causes),
    )


class Writer(Struct, frozen=True):
    """A field manager, its operation, and the time of its last write (RFC 3339).

    `subresource` is the part that it wrote, such as ``status`` or ``scale``.
    """

    manager: str
    operation: str
    at: str
    subresource: str
    fields: JSON


_STATUS: Final = "status"


def writers(item: Item) -> Iterator[Writer]:
    """Yield the managers of an object's fields, without those of its status."""
    for each in objects_at(item.metadata, "managedFields"):
        if text_at(each, "subresource") != _STATUS:
            yield Writer(
                text_at(each, "manager"),
                text_at(each, "operation"),
                text_at(each, "time"),
                text_at(each, "subresource"),
                object_at(each, "fieldsV1"),
            )


def writers_of(item: Item, *path: str) -> tuple[Writer, ...]:
    """Return the managers of one field, such as ``spec`` ``replicas``."""
    return tuple(each for each in writers(item) if _owns(each.fields, path))


def _owns(fields: JSON, path: tuple[str, ...]) -> bool:
    for name in path[:-1]:
        fields = object_at(fields, f"f:{name}")
    return f"f:{path[-1]}" in fields


def last_spec_change(item: Item) -> str:
    """Return the time of the last write of a manager of the spec; empty for none."""
    found = (each.at for each in writers(item) if "f:spec" in each.fields)
    return max(found, default="")


def last_change(item: Item) -> str:
    """Return the time of the last write that was not of the status; empty for none."""
    return max((each.at for each in writers(item)), default="")
