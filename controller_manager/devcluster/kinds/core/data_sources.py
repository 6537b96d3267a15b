"""The two fields of a claim that say with what its volume is filled.

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
    """Let both fields name the source of a new claim.

    The older one, ``dataSource``, cannot name everything: what it cannot is ignored.
    """
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old and not new:
        if (old.get("apiGroup") or "", old.get("kind")) in _COPIED:
            spec["dataSourceRef"] = dict(old)
        else:
            del spec["dataSource"]
    elif new and not old and not new.get("namespace"):
        spec["dataSource"] = dict(new)
