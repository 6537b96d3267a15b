"""The actions of a sync, as values: a write, a read, or the end of the sync."""

from typing import Any, Final

from msgspec import Struct

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.resource import Resource
from controller_manager.client.events import NORMAL, WARNING

STATUS: Final = "status"
"""The name of the subresource."""


class Event(Struct, frozen=True):
    """An event about a claim or a volume."""

    about: PersistentVolumeClaim | PersistentVolume
    type: str
    reason: str
    message: str

    @property
    def resource(self) -> Resource[Any]:
        """The resource of the object."""
        return resource_of(self.about)


def normal(
    about: PersistentVolumeClaim | PersistentVolume, reason: str, message: str
) -> Event:
    """Return an event that informs."""
    return Event(about, NORMAL, reason, message)


def warning(
    about: PersistentVolumeClaim | PersistentVolume, reason: str, message: str
) -> Event:
    """Return an event that warns."""
    return Event(about, WARNING, reason, message)


class Write(Struct, frozen=True):
    """Replace an object, or its status; then decide again.

    `volume` is the name of the volume that the write is about: the sync locks it first.
    `event` is recorded when the write has succeeded, `refused` when it has failed.
    """

    obj: PersistentVolumeClaim | PersistentVolume
    subresource: str = ""
    volume: str = ""
    event: Event | None = None
    refused: str = ""
    """The reason of the event about a failed write, "" for no event."""
    gives_default_class: bool = False
    provisioner: str = ""
    """The provisioner that this write asks for a volume."""


class ReadClaim(Struct, frozen=True):
    """Read the claim of a volume from the API server; then decide again."""

    namespace: str
    name: str


class ReadVolume(Struct, frozen=True):
    """Read the volume of a claim from the API server, and compare it with the cache.

    If they are equal, decide again. If not, wait for the cache.
    """

    name: str


class Finished(Struct, frozen=True):
    """The end of a sync: no write is missing now.

    `claim_to_sync` is the key of a claim to sync. With `requeue`, the object is synced
    again after the sync period: the cause that it waits for may have no event.
    """

    events: tuple[Event, ...] = ()
    claim_to_sync: str = ""
    requeue: bool = False
    provisioner: str = ""
    """The provisioner that a claim waits for, "" for none."""
    deletes: bool = False
    """True if the volume has to be deleted."""
    problem: str = ""
    """The reason why the volume cannot be deleted."""
    error: str = ""
    """The error of the sync, for an inconsistent state of claim and volume."""


Action = Write | ReadClaim | ReadVolume | Finished

SETTLED: Final = Finished()


def resource_of(
    obj: PersistentVolumeClaim | PersistentVolume,
) -> Resource[Any]:
    """Return the resource of a claim or a volume."""
    return CLAIMS if isinstance(obj, PersistentVolumeClaim) else PERSISTENT_VOLUMES
