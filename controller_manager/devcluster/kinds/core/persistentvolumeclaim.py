"""PersistentVolumeClaim: what a pod asks for of a volume."""

from typing import ClassVar, Final

from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.strategy import Strategy


class PersistentVolumeClaimStrategy(Strategy):
    """Answers a DELETE with the object."""

    returns_deleted: ClassVar = True


KIND: Final = Kind(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    model="V1PersistentVolumeClaim",
    short_names=("pvc",),
    subresources=(status_of("PersistentVolumeClaim"),),
    strategy=PersistentVolumeClaimStrategy(),
)
