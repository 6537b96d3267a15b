"""The usage of persistent volume claims.

Upstream: pkg/quota/v1/evaluator/core/persistent_volume_claims.go.
"""

from typing import Final

from controller_manager.api.core.claims import (
    PersistentVolumeClaim,
    requested_storage,
    storage_class_of,
)
from controller_manager.api.quantity import Quantity, parse_quantity

from .amounts import Amounts
from .names import count_name

CLAIMS: Final = "persistentvolumeclaims"
STORAGE: Final = "requests.storage"
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"

_COUNT: Final = count_name("persistentvolumeclaims", "")
_ONE: Final = Quantity.of(1)
_TRACKED: Final = frozenset((_COUNT, CLAIMS, STORAGE))
_SUFFIXES: Final = (_BY_CLASS + CLAIMS, _BY_CLASS + STORAGE)


def tracks(name: str) -> bool:
    """Tell whether claims are charged for a resource."""
    return name in _TRACKED or name.endswith(_SUFFIXES)


def claim_usage(claim: PersistentVolumeClaim) -> Amounts:
    """Return the usage of a claim, also by its storage class.

    Raises QuantityError for an invalid quantity.
    """
    usage = {_COUNT: _ONE, CLAIMS: _ONE}
    size = _size(claim)
    if size is not None:
        usage[STORAGE] = size
    if storage_class := storage_class_of(claim):
        by_class = storage_class + _BY_CLASS
        usage |= {
            by_class + name: usage[name] for name in (CLAIMS, STORAGE) if name in usage
        }
    return usage


def _size(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the bytes that count: the larger of the requested and the allocated bytes.

    A claim that a user makes smaller after a failed expansion keeps its allocation.
    """
    wanted = requested_storage(claim)
    if wanted is None:
        return None
    size = _whole_bytes(parse_quantity(wanted))
    allocated = (claim.status.allocated_resources or {}).get("storage")
    if allocated is not None:
        size = max(size, _whole_bytes(parse_quantity(allocated)))
    return size


def _whole_bytes(amount: Quantity) -> Quantity:
    whole = Quantity.of(amount.value, amount.format)
    return amount if whole == amount else whole
