"""The topology labels that a pod gets from its node (plugin PodTopologyLabels)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.storage import Storage

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def labelled_by_node(metadata: JSON, node: str, storage: Storage) -> JSON:
    """Return the metadata of a pod with the zone and the region of its node.

    The metadata stay the same if the node does not exist or lacks the labels.
    """
    stored = storage.collection("nodes").get(("", node))
    labels = stored.obj["metadata"].get("labels", {}) if stored else {}
    copied = {name: labels[name] for name in _LABELS if name in labels}
    if not copied:
        return metadata
    return {**metadata, "labels": {**metadata.get("labels", {}), **copied}}
