"""The index of slices by service."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.discovery.v1 import SERVICE_NAME, EndpointSlice
from controller_manager.api.meta import labels_of
from controller_manager.informers.indexes import Index


def service_key_of(each: EndpointSlice) -> str:
    """Return the key of the service that the label of a slice names, "" without it."""
    name = labels_of(each).get(SERVICE_NAME, "")
    return f"{each.metadata.namespace}/{name}" if name else ""


def _service_keys(each: EndpointSlice) -> Iterable[str]:
    return (key,) if (key := service_key_of(each)) else ()


def _has_same_labels(old: EndpointSlice, new: EndpointSlice) -> bool:
    return old.metadata.labels == new.metadata.labels


BY_SERVICE: Final = Index("service", _service_keys, _has_same_labels)
"""Slices by the key of their service, also slices of other managers."""
