"""Finalizers that admission adds to new objects of storage.

Upstream: plugin/pkg/admission/storage/storageobjectinuseprotection.
"""

from typing import Any, Final

JSON = dict[str, Any]

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
ATTRIBUTES_CLASS_PROTECTION: Final = "kubernetes.io/vac-protection"


def add_finalizer(obj: JSON, finalizer: str) -> None:
    """Add a finalizer to an object that lacks it, after the others."""
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)
