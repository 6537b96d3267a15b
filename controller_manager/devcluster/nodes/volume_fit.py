"""Which volumes satisfy which claims."""

from typing import Any

import msgspec

from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.api.selectors import LabelSelector, compile_selector

JSON = dict[str, Any]


def is_bound(claim: JSON) -> bool:
    """Tell whether a claim has its volume."""
    return bool(claim.get("status", {}).get("phase") == "Bound")


def is_free(volume: JSON) -> bool:
    """Tell whether a volume waits for a claim."""
    phase = volume.get("status", {}).get("phase")
    return (
        phase in (None, "Available", "Pending")
        and "deletionTimestamp" not in volume["metadata"]
        and not volume["spec"].get("claimRef", {}).get("uid")
    )


def satisfies(volume: JSON, claim: JSON, wanted: str | None) -> bool:
    """Tell whether a free volume may be bound to a claim, which may name a volume."""
    spec, request = volume["spec"], claim["spec"]
    if wanted and wanted != volume["metadata"]["name"]:
        return False
    reserved = spec.get("claimRef")
    if reserved and (reserved.get("namespace"), reserved.get("name")) != (
        claim["metadata"]["namespace"],
        claim["metadata"]["name"],
    ):
        return False
    selector = request.get("selector")
    if selector is not None:
        compiled = compile_selector(msgspec.convert(selector, LabelSelector))
        if not compiled.matches(volume["metadata"].get("labels", {})):
            return False
    return (
        spec.get("storageClassName", "") == (request.get("storageClassName") or "")
        and spec.get("volumeMode", "Filesystem")
        == request.get("volumeMode", "Filesystem")
        and set(request.get("accessModes", ())) <= set(spec.get("accessModes", ()))
        and capacity_of(volume) >= parse_quantity(request_of(claim))
    )


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
