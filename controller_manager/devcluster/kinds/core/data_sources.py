"""The two fields of a claim that name the source of its data.

Upstream: pkg/api/persistentvolumeclaim.
"""

from typing import Final

from controller_manager.api.json_objects import JSON

_COPIED: Final = (
    ("", "PersistentVolumeClaim"),
    (
        "snapshot.storage.k8s.io",
        "VolumeSnapshot",
    ),
)
"""The sources that the older field may name."""


def fill_in_data_sources(spec: JSON) -> None:
    """Copy the source of a new claim to the field that is empty.

    The older field, ``dataSource``, cannot name all kinds of sources. Sources of other
    kinds are removed from it.
    """
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old and not new:
        if (old.get("apiGroup") or "", old.get("kind")) in _COPIED:
            spec["dataSourceRef"] = dict(old)
        else:
            del spec["dataSource"]
    elif new and not old and not new.get("namespace"):
        spec["dataSource"] = dict(new)
