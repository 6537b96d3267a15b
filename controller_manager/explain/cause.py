"""A cause: one link of the chain from a symptom to its root."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace


class State(StrEnum):
    """The state of an object, or the part of a cause in it."""

    HEALTHY = "healthy"
    """The object is as its spec wants it. Such a cause is only worth knowing."""

    PROGRESSING = "progressing"
    """The object changes by itself, without anybody's help."""

    STUCK = "stuck"
    """The object stays as it is until somebody, or something else, acts."""


_ORDER: Final = (State.HEALTHY, State.PROGRESSING, State.STUCK)


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
