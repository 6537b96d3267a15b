"""The admission plugins that add a finalizer to new objects.

A controller removes the finalizer of an object that is being deleted once nothing uses
the object any more. Upstream: StorageObjectInUseProtection and PodGroupProtection.
"""

from typing import ClassVar, Final

from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write

from .writes import object_of

_STORAGE: Final = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}
_POD_GROUPS: Final = {
    ("scheduling.k8s.io", "podgroups"): "scheduling.k8s.io/podgroup-protection"
}


class _Protection(Plugin):
    """Adds the finalizer of its resource to a new object that lacks it."""

    covers_own_writes: ClassVar = True
    mutates: ClassVar = frozenset((Operation.CREATE,))
    finalizers: ClassVar[dict[tuple[str, str], str]] = {}

    def mutate(self, write: Write) -> None:
        """Add the finalizer, after the others."""
        finalizer = self.finalizers[write.kind.group, write.kind.plural]
        metadata = object_of(write)["metadata"]
        given = metadata.get("finalizers") or []
        if finalizer not in given:
            metadata["finalizers"] = [*given, finalizer]


class StorageObjectInUseProtection(_Protection):
    """Keeps claims, volumes and classes of volume attributes that are in use."""

    name: ClassVar = "StorageObjectInUseProtection"
    targets: ClassVar = frozenset((*each, "") for each in _STORAGE)
    finalizers: ClassVar = _STORAGE


class PodGroupProtection(_Protection):
    """Keeps groups of pods that pods need."""

    name: ClassVar = "PodGroupProtection"
    targets: ClassVar = frozenset((*each, "") for each in _POD_GROUPS)
    finalizers: ClassVar = _POD_GROUPS
