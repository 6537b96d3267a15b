"""The admission plugin PodTopologyLabels, for pods that name their node themselves.

Other pods get their labels when they are bound (kinds/core/pod_binding).
"""

from typing import ClassVar

from controller_manager.devcluster.kinds.core.pod.topology import labelled_by_node
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage.storage import Storage

from .writes import PODS, object_of, spec_of


class PodTopologyLabels(Plugin):
    """Gives a pod the zone and the region of its node."""

    name: ClassVar = "PodTopologyLabels"
    targets: ClassVar = PODS
    covers_own_writes: ClassVar = True
    mutates: ClassVar = frozenset((Operation.CREATE,))

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def mutate(self, write: Write) -> None:
        """Add the labels."""
        if node := spec_of(write).get("nodeName"):
            metadata = object_of(write)["metadata"]
            metadata.update(labelled_by_node(metadata, node, self._storage))
