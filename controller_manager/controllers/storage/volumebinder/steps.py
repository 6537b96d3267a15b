"""What a sync does next: a write, a question to the API server, or a rest."""

from typing import Any, Final

from msgspec import Struct

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.resource import Resource
from controller_manager.client.events import NORMAL, WARNING

STATUS: Final = "status"
"""The subresource."""


class Notice(Struct, frozen=True):
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
) -> Notice:
    """Return an event that informs."""
    return Notice(about, NORMAL, reason, message)


def warning(
    about: PersistentVolumeClaim | PersistentVolume, reason: str, message: str
) -> Notice:
    """Return an event that warns."""
    return Notice(about, WARNING, reason, message)


class Write(Struct, frozen=True):
    """Replace an object, or its status; then decide again.

    `volume` is the name of the volume that the write is about: nobody else may change
    it meanwhile. `notice` is recorded once the write has succeeded, `refused` if it has
    failed.
    """

    obj: PersistentVolumeClaim | PersistentVolume
    subresource: str = ""
    volume: str = ""
    notice: Notice | None = None
    refused: str = ""
    """The reason of the event about a failed write, "" for no event."""
    gives_default_class: bool = False
    provisioner: str = ""
    """Who is asked for a volume by this write."""


class ReadClaim(Struct, frozen=True):
    """Read the claim of a volume from the API server; then decide again."""

    namespace: str
    name: str


class ReadVolume(Struct, frozen=True):
    """Make certain that the API server has the volume of a claim as the cache shows it.

    Then decide again. If it has not, wait for the cache.
    """

    name: str


class Rest(Struct, frozen=True):
    """Nothing more to write now.

    `wakes` is the key of a claim to be synced. With `again`, the object is looked at
    again after the sync period: what it waits for may come without an event.
    """

    notices: tuple[Notice, ...] = ()
    wakes: str = ""
    again: bool = False
    provisioner: str = ""
    """Who is to provision a volume for a claim; "" if nobody is."""
    deletes: bool = False
    """Whether the volume is to be deleted."""
    problem: str = ""
    """Why it cannot be deleted."""
    error: str = ""
    """A state that should not be, which the sync fails with."""


Step = Write | ReadClaim | ReadVolume | Rest

SETTLED: Final = Rest()


def resource_of(
    obj: PersistentVolumeClaim | PersistentVolume,
) -> Resource[Any]:
    """Return the resource of a claim or a volume."""
    return CLAIMS if isinstance(obj, PersistentVolumeClaim) else PERSISTENT_VOLUMES
