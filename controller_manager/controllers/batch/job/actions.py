"""The actions of a sync on the number of pods, as values."""

from collections.abc import Mapping

from msgspec import Struct

from controller_manager.api.core.v1 import Pod


class Create(Struct, frozen=True):
    """Create pods: one for each of the `indexes`, or `count` without indexes."""

    count: int
    indexes: tuple[int, ...] = ()
    replaced: Mapping[int, Pod] = {}
    """The failed pods whose counts the new ones take over, by index."""


class Delete(Struct, frozen=True):
    """Delete these pods, which do not count as failed."""

    pods: tuple[Pod, ...]


class Wait(Struct, frozen=True):
    """Create pods only after the backoff, in `seconds`."""

    seconds: float


Plan = Create | Delete | Wait | None
"""`None` means that there are as many pods as needed."""
