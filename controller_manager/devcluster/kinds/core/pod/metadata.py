"""The metadata of a pod that a subresource writes."""

from typing import Final

from controller_manager.api.json_objects import JSON

_KEPT: Final = ("annotations", "finalizers", "labels", "ownerReferences")


def with_old_metadata(old: JSON, new: JSON) -> JSON:
    """Return the old pod with the metadata of an update that changes none of its own.

    Upstream: ResetObjectMetaForStatus of apimachinery.
    """
    kept = {name: old["metadata"][name] for name in _KEPT if name in old["metadata"]}
    rest = {name: each for name, each in new["metadata"].items() if name not in _KEPT}
    return {**old, "metadata": {**rest, **kept}}
