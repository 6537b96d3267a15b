"""What the server allocates for a service, and takes back.

Upstream: pkg/registry/core/service/storage/alloc.go.
"""

from typing import Any

from controller_manager.devcluster.kinds.core.service_families import (
    fill_families,
    keeps_families,
    trim_families,
)
from controller_manager.devcluster.kinds.core.service_fields import (
    is_headless,
    may_have_node_ports,
    needs_cluster_ip,
    needs_health_check_port,
)
from controller_manager.devcluster.kinds.core.service_node_ports import (
    assign_health_check_port,
    assign_node_ports,
    node_ports_of,
)
from controller_manager.devcluster.kinds.core.service_ranges import (
    ADDRESSES,
    AllocationError,
    allocate,
    check_free,
    families_of,
    ip_address_of,
)
from controller_manager.devcluster.kinds.ip_addresses import parse_address
from controller_manager.devcluster.kinds.networking.ipaddress import KIND as IP_ADDRESS
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.statuses import (
    Cause,
    invalid,
    invalid_object,
    shown,
)
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]


def allocate_for(obj: JSON, old: JSON | None, storage: Storage) -> None:
    """Give a service its families, addresses and node ports; raises Refusal.

    `old` is the service before an update.
    """
    spec, before = obj["spec"], (old or {}).get("spec", {})
    causes: list[Cause] = []
    if needs_cluster_ip(spec):
        trim_families(before, spec)
        if not keeps_families(before, spec):
            causes += fill_families(spec, families_of(storage))
        if not causes and not is_headless(spec):
            causes += _assign_addresses(spec, before, storage)
    own = set(node_ports_of(before))
    if may_have_node_ports(spec):
        causes += assign_node_ports(spec, own, storage)
    if needs_health_check_port(spec):
        assign_health_check_port(spec, own, storage)
    if causes:
        raise invalid_object("", "Service", obj["metadata"].get("name", ""), causes)


def sync_addresses(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Create the IPAddresses that a service has got, delete those it has given up."""
    before, after = _addresses_of(old), _addresses_of(new)
    collection = objects.storage.collection(ADDRESSES)
    for name in before - after:
        if collection.get(("", name)) is not None:
            objects.delete(IP_ADDRESS, "", name, Deletion())
    for name in sorted(after - before):
        address = parse_address(name)
        if new is None or address is None or collection.get(("", name)) is not None:
            continue
        metadata = new["metadata"]
        obj = ip_address_of(address, metadata["namespace"], metadata["name"])
        objects.create(IP_ADDRESS, "", obj)


def _addresses_of(obj: JSON | None) -> set[str]:
    """Return the addresses of a service, in canonical form."""
    texts = obj["spec"].get("clusterIPs", ()) if obj else ()
    addresses = map(parse_address, texts)
    return {str(each) for each in addresses if each is not None}


def _assign_addresses(spec: JSON, before: JSON, storage: Storage) -> list[Cause]:
    """Give a service one address of each of its families; return what is wrong."""
    addresses = list(spec.get("clusterIPs", ()))
    if any(parse_address(each) is None for each in addresses):
        return []  # validation says what is wrong with them
    known = before.get("clusterIPs", ())
    try:
        for text in addresses:
            if text not in known:
                check_free(storage, text)
        missing = spec["ipFamilies"][len(addresses) :]
        addresses += [allocate(storage, family) for family in missing]
    except AllocationError as error:
        given = shown(spec.get("clusterIPs"))
        return [invalid("spec.clusterIPs", given, str(error))]
    spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses
    return []
