"""Allocates addresses and node ports to services, and releases them.

Upstream: pkg/registry/core/service/storage/alloc.go.
"""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.networking.ipaddress import KIND as IP_ADDRESS
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    Refusal,
    invalid,
    invalid_object,
    shown,
)
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.validation.ip_addresses import parse_address

from .families import fill_families, fill_policy, keeps_families
from .fields import (
    AllocationError,
    is_headless,
    may_have_node_ports,
    needs_cluster_ip,
    needs_health_check_port,
)
from .node_ports import NodePorts, assign_changed, assign_new, node_ports_of
from .ranges import (
    ADDRESSES,
    allocate,
    families_of,
    ip_address_of,
    note_taken,
    why_not_free,
)
from .validation import SERVICE_ADDRESSES


def allocate_for(obj: JSON, old: JSON | None, storage: Storage) -> None:
    """Give a service its families, addresses and node ports; raises Refusal.

    `old` is the service before an update.
    """
    spec, before = obj["spec"], (old or {}).get("spec", {})
    name = obj["metadata"].get("name", "")
    try:
        _refuse(name, _allocate_addresses(spec, before, storage))
        _refuse(name, _allocate_node_ports(spec, before, storage))
    except AllocationError as error:
        message = f"Internal error occurred: {error}"
        raise Refusal(500, "InternalError", message) from error


def _refuse(name: str, causes: list[Cause]) -> None:
    if causes:
        raise invalid_object("", "Service", name, causes)


def _allocate_addresses(spec: JSON, before: JSON, storage: Storage) -> list[Cause]:
    if not needs_cluster_ip(spec) or keeps_families(before, spec):
        return []
    fill_policy(spec, before)
    if causes := SERVICE_ADDRESSES.errors(spec, path="spec."):
        return causes
    causes = fill_families(spec, before, families_of(storage))
    if causes or is_headless(spec):
        return causes
    return _assign_addresses(spec, before, storage)


def _allocate_node_ports(spec: JSON, before: JSON, storage: Storage) -> list[Cause]:
    node_ports = NodePorts(set(node_ports_of(before)), storage)
    causes: list[Cause] = []
    if may_have_node_ports(spec):
        assign = assign_changed if before else assign_new
        causes = assign(spec, node_ports)
    if needs_health_check_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = node_ports.next()
    return causes


def sync_addresses(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Create the new IPAddresses of a service, and delete the released ones."""
    before, after = _addresses_of(old), _addresses_of(new)
    collection = objects.storage.collection(ADDRESSES)
    for name in before - after:
        if collection.get(("", name)) is not None:
            objects.delete(IP_ADDRESS, "", name, Deletion())
    for name in sorted(after - before):
        address = parse_address(name)
        if new is None or address is None or collection.get(("", name)) is not None:
            continue
        note_taken(objects.storage, name)
        metadata = new["metadata"]
        obj = ip_address_of(address, metadata["namespace"], metadata["name"])
        objects.create(IP_ADDRESS, "", obj)


def _addresses_of(obj: JSON | None) -> set[str]:
    """Return the addresses of a service, in canonical form."""
    texts = obj["spec"].get("clusterIPs", ()) if obj else ()
    addresses = map(parse_address, texts)
    return {str(each) for each in addresses if each is not None}


def _assign_addresses(spec: JSON, before: JSON, storage: Storage) -> list[Cause]:
    """Give a service one address of each of its families; return the errors.

    The address that a service has already is not checked: validation says that it
    cannot be changed. Raises AllocationError.
    """
    addresses = list(spec.get("clusterIPs", ()))
    known = len(before.get("clusterIPs", ())) if needs_cluster_ip(before) else 0
    for text in addresses[known:]:
        if wrong := why_not_free(storage, text):
            return [invalid("spec.clusterIPs", shown(addresses), wrong)]
    missing = spec["ipFamilies"][len(addresses) :]
    addresses += [allocate(storage, family) for family in missing]
    spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses
    return []
