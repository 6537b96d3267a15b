"""Tests whether a volume satisfies a claim."""

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.api.selectors import LabelSelector, compile_selector


def is_free(volume: JSON) -> bool:
    """Tell whether a volume is free; it may be reserved for a claim."""
    return (
        volume.get("status", {}).get("phase") == "Available"
        and "deletionTimestamp" not in volume["metadata"]
        and not volume["spec"].get("claimRef", {}).get("uid")
    )


def satisfies(volume: JSON, claim: JSON) -> bool:
    """Tell whether a free volume may be bound to a claim."""
    spec, request = volume["spec"], claim["spec"]
    return (
        _is_reserved_for(spec.get("claimRef"), claim)
        and _is_selected(volume, request.get("selector"))
        and _same(spec, request, "volumeMode", "Filesystem")
        and _same(spec, request, "volumeAttributesClassName", "")
        and set(request.get("accessModes", ())) <= set(spec.get("accessModes", ()))
        and capacity_of(volume) >= parse_quantity(request_of(claim))
    )


def _is_reserved_for(reference: JSON | None, claim: JSON) -> bool:
    metadata = claim["metadata"]
    return not reference or (reference.get("namespace"), reference.get("name")) == (
        metadata["namespace"],
        metadata["name"],
    )


def _is_selected(volume: JSON, selector: JSON | None) -> bool:
    if selector is None:
        return True
    compiled = compile_selector(msgspec.convert(selector, LabelSelector))
    return compiled.matches(volume["metadata"].get("labels", {}))


def _same(spec: JSON, request: JSON, name: str, absent: str) -> bool:
    return (spec.get(name) or absent) == (request.get(name) or absent)


def capacity_of(volume: JSON) -> Quantity:
    """Return the size of a volume, in bytes."""
    return parse_quantity(volume["spec"].get("capacity", {}).get("storage", "0"))


def request_of(claim: JSON) -> str:
    """Return the size that a claim asks for, as it is written there."""
    requests = claim["spec"].get("resources", {}).get("requests", {})
    return str(requests.get("storage", "0"))


def reference_to(claim: JSON) -> JSON:
    """Return the claimRef of a volume that is bound to a claim."""
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
