"""PersistentVolume: a piece of storage."""

from typing import ClassVar, Final

from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.strategy import Strategy


class PersistentVolumeStrategy(Strategy):
    """Answers a DELETE with the object."""

    returns_deleted: ClassVar = True


KIND: Final = Kind(
    "",
    "v1",
    "PersistentVolume",
    "persistentvolumes",
    namespaced=False,
    model="V1PersistentVolume",
    short_names=("pv",),
    subresources=(status_of("PersistentVolume"),),
    strategy=PersistentVolumeStrategy(),
)
