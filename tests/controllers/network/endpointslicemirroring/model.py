"""The slices that mirror Endpoints, as a reader of the objects sees it."""

from typing import Final

from controller_manager.api.json_objects import JSON

Offer = tuple[str, str, str, int, str, bool]
"""Address type, IP, name, number and protocol of a port, and whether it is ready."""

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
_MANAGED: Final = "endpointslice.kubernetes.io/managed-by"
_SERVICE: Final = "kubernetes.io/service-name"
_SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_LOCK: Final = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED: Final = (
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
)


def is_mirror_of(each: JSON, endpoints: JSON) -> bool:
    """Tell whether a slice has the labels of a mirror of these Endpoints."""
    metadata, labels = endpoints["metadata"], each["metadata"].get("labels", {})
    names = each["metadata"]["namespace"], labels.get(_MANAGED), labels.get(_SERVICE)
    return names == (metadata["namespace"], MANAGER, metadata["name"])


def is_to_be_mirrored(endpoints: JSON, service: JSON | None) -> bool:
    """Tell whether Endpoints should have slices."""
    metadata = endpoints["metadata"]
    return (
        service is not None
        and not service["spec"].get("selector")
        and metadata.get("labels", {}).get(_SKIP) != "true"
        and _LOCK not in metadata.get("annotations", {})
    )


def offers_of_slice(each: JSON) -> list[Offer]:
    """Return the ports and addresses of a slice."""
    return [
        (
            each["addressType"],
            address,
            port.get("name", ""),
            port["port"],
            port["protocol"],
            endpoint["conditions"]["ready"],
        )
        for endpoint in each.get("endpoints") or []
        for address in endpoint["addresses"]
        for port in each.get("ports") or []
    ]


def expected_offers(endpoints: JSON) -> set[Offer]:
    """Return the ports and addresses that the slices of Endpoints should have.

    An address that is ready in one subset and not in another is not ready.
    """
    offers = {
        (
            "IPv6" if ":" in address["ip"] else "IPv4",
            address["ip"],
            port.get("name", ""),
            port["port"],
            port["protocol"],
            field == "addresses",
        )
        for subset in endpoints.get("subsets") or []
        for field in ("addresses", "notReadyAddresses")
        for address in subset.get(field) or []
        for port in subset.get("ports") or []
    }
    return {
        each for each in offers if not each[-1] or (*each[:-1], False) not in offers
    }


def expected_metadata(endpoints: JSON) -> JSON:
    """Return the labels and annotations of the slices of Endpoints."""
    metadata = endpoints["metadata"]
    own = {_SERVICE: metadata["name"], _MANAGED: MANAGER}
    return {
        "labels": {**metadata.get("labels", {}), **own},
        "annotations": {
            key: value
            for key, value in metadata.get("annotations", {}).items()
            if key not in _NOT_COPIED
        },
    }
