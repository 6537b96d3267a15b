"""Compares endpoints by key and by content (hashEndpoint, EndpointsEqualBeyondHash)."""

from msgspec.structs import replace

from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.discovery.v1 import Endpoint

EndpointKey = tuple[tuple[str, ...], str, str, str]
"""The addresses of an endpoint, its host name, and its target's namespace and name."""


def key_of_endpoint(endpoint: Endpoint) -> EndpointKey:
    """Return the key of an endpoint; two versions of one endpoint have the same key.

    So a change of readiness, node or zone is an update in place.
    """
    addresses = endpoint.addresses or ()
    if len(addresses) > 1:
        addresses = tuple(sorted(addresses))
    target = endpoint.target_ref
    namespace, name = ("", "") if target is None else (target.namespace, target.name)
    return addresses, endpoint.hostname or "", namespace, name


def is_up_to_date(existing: Endpoint, desired: Endpoint) -> bool:
    """Tell whether an endpoint equals the desired one, except for its hints."""
    return (
        existing.conditions == desired.conditions
        and existing.node_name == desired.node_name
        and existing.zone == desired.zone
        and _is_same_target(existing.target_ref, desired.target_ref)
    )


def _is_same_target(one: ObjectReference | None, two: ObjectReference | None) -> bool:
    """Compare targets without the resource version: each update of a pod changes it."""
    if one == two:
        return True
    if one is None or two is None:
        return False
    return replace(one, resource_version="") == replace(two, resource_version="")
