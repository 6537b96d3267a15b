"""The addresses and node ports of services: ranges, IP families, allocation.

Upstream: pkg/registry/core/service.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.registry.networking import DEFAULT_CIDR, IP_ADDRESSES
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    Refusal,
    invalid,
    invalid_object,
    shown,
)
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation import values
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import family_of, parse_address

# The fields that a service needs, by its type (pkg/api/service).

HEADLESS: Final = "None"
"""The cluster IP of a service without one."""

EXTERNAL_NAME: Final = "ExternalName"
_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")


class AllocationError(Exception):
    """No free address or port is left; the message is upstream's."""


def needs_cluster_ip(spec: JSON) -> bool:
    """Tell whether a service has cluster IPs, or says that it has none."""
    return spec.get("type") != EXTERNAL_NAME


def needs_node_ports(spec: JSON) -> bool:
    """Tell whether each port of a service gets a node port."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts", True) is not False
    return spec.get("type") == "NodePort"


def may_have_node_ports(spec: JSON) -> bool:
    """Tell whether ports of a service may have node ports."""
    return spec.get("type") in _WITH_NODE_PORTS


def needs_health_check_port(spec: JSON) -> bool:
    """Tell whether a service gets a node port for health checks."""
    is_balanced = spec.get("type") == "LoadBalancer"
    return is_balanced and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: JSON) -> bool:
    """Tell whether clients outside the cluster can reach a service."""
    kind = spec.get("type")
    return kind in _WITH_NODE_PORTS or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def is_headless(spec: JSON) -> bool:
    """Tell whether a service has no cluster IP on purpose."""
    return spec.get("clusterIP") == HEADLESS


# The rules for services (ValidateService and ValidateServiceUpdate).

_MOST_ADDRESSES: Final = 2
_FAMILIES: Final = ("IPv4", "IPv6")


def _cluster_ips(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Compare the addresses with the first of them, and with their families."""
    addresses, primary = spec.get("clusterIPs", []), spec.get("clusterIP", "")
    where, families = f"{path}clusterIPs", spec.get("ipFamilies", [])
    if primary and not addresses:
        yield statuses.required(where)
    if addresses and primary != addresses[0]:
        detail = "must be empty when `clusterIP` is not specified"
        if primary:
            detail = "first value must match `clusterIP`"
        yield statuses.invalid(where, shown(addresses), detail)
    if len(addresses) > _MOST_ADDRESSES:
        yield statuses.too_many(where, len(addresses), _MOST_ADDRESSES)
    for number, address in enumerate(addresses[:_MOST_ADDRESSES]):
        at = f"{where}[{number}]"
        if address == HEADLESS:
            if len(addresses) > 1:
                detail = "'None' must be the first and only value"
                yield statuses.invalid(at, shown(address), detail)
        elif wrong := values.validate_address(address, at):
            yield from wrong
        elif number < len(families):
            yield from _family(address, families[number], at, number)


def _family(address: str, family: str, field: str, number: int) -> Iterator[Cause]:
    if not values.is_in_family(address, family):
        which = f"`ipFamilies[{number}]`"
        detail = f"expected an {family} value as indicated by {which}"
        yield statuses.invalid(field, shown(address), detail)


def _families(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    families = spec.get("ipFamilies", [])
    for number, family in enumerate(families):
        where = f"{path}ipFamilies[{number}]"
        if family not in _FAMILIES:
            yield statuses.not_supported(where, shown(family), _FAMILIES)
        elif family in families[:number]:
            yield statuses.duplicate(where, shown(family))


SERVICE_ADDRESSES: Final = table("""
    when type is ExternalName:
      ipFamilies, ipFamilyPolicy: forbidden filled
        "may not be used when `type` is 'ExternalName'"
    else:
      hook families
      ipFamilyPolicy: enum PreferDualStack RequireDualStack SingleStack
      hook cluster_ips
    """)

# The ranges of service addresses, and the free addresses in them.

Range = IPv4Network | IPv6Network

DEFAULT_RANGE: Final = "10.96.0.0/12"
"""The default range of service addresses, which is kubeadm's."""

CIDRS: Final = "servicecidrs.networking.k8s.io"
ADDRESSES: Final = "ipaddresses.networking.k8s.io"

_LEAST_BAND: Final = 16
_MOST_BAND: Final = 256


def ranges_of(storage: Storage) -> list[Range]:
    """Return the ranges of all ServiceCIDRs not being deleted, the default's first."""
    found = [
        stored.obj
        for stored in storage.collection(CIDRS)
        if "deletionTimestamp" not in stored.obj["metadata"]
    ]
    found.sort(key=lambda obj: obj["metadata"]["name"] != DEFAULT_CIDR)
    return [ip_network(text) for obj in found for text in obj["spec"]["cidrs"]]


def families_of(storage: Storage) -> list[str]:
    """Return the address families of services, the default one first."""
    families = [f"IPv{each.version}" for each in ranges_of(storage)]
    return list(dict.fromkeys(families)) or ["IPv4"]


def allocate(storage: Storage, family: str) -> str:
    """Return a free address of a family; raises AllocationError.

    As upstream does, it returns the first addresses of a range last: users choose them.
    """
    for each in ranges_of(storage):
        if f"IPv{each.version}" == family:
            address = _free_in(each, storage)
            if address is not None:
                return address
    msg = "failed to allocate a serviceIP: range is full"
    raise AllocationError(msg)


def why_not_free(storage: Storage, text: str) -> str:
    """Return why a new service cannot have an address, "" if it can."""
    address = parse_address(text)
    assert address is not None  # noqa: S101 - its form has been checked
    same = [each for each in ranges_of(storage) if each.version == address.version]
    if not any(address in each for each in same):
        ranges = ", ".join(map(str, same))
        return (
            f"failed to allocate IP {text}: provided IP is not in the valid range. "
            f"The range of valid IPs is {ranges}"
        )
    if storage.collection(ADDRESSES).get(("", str(address))) is not None:
        return f"failed to allocate IP {text}: provided IP is already allocated"
    return ""


def note_taken(storage: Storage, address: str) -> None:
    """Move on to the next address after a service got this one.

    A write may be attempted several times: only a stored write moves on.
    """
    for each in ranges_of(storage):
        if parse_address(address) in each and _free_in(each, storage) == address:
            storage.next_number(_turn_of(each))


def _turn_of(each: Range) -> str:
    return f"addresses of {each}"


def _free_in(each: Range, storage: Storage) -> str | None:
    """Return the next address of a range that is free.

    Addresses are taken in turn, so that one that was released is not taken at once.
    The same address is returned until it is taken.
    """
    used = storage.collection(ADDRESSES)
    # Neither the address of the network nor, for IPv4, that of broadcasts.
    size = each.num_addresses - (2 if each.version == 4 else 1)
    if size <= 0:
        return None
    band = min(max(_LEAST_BAND, each.num_addresses // 16), _MOST_BAND, size - 1)
    start = storage.last_numbers[_turn_of(each)]
    upper = size - band
    for number in range(min(upper, len(used) + 1)):
        address = each[1 + band + (start + number) % upper]
        if used.get(("", str(address))) is None:
            return str(address)
    for number in range(band):
        address = each[1 + number]
        if used.get(("", str(address))) is None:
            return str(address)
    return None


# The address families of a service (pkg/registry/core/service/storage/alloc.go).

SINGLE: Final = "SingleStack"
PREFER_DUAL: Final = "PreferDualStack"
REQUIRE_DUAL: Final = "RequireDualStack"
_BOTH: Final = 2
_POLICY: Final = "spec.ipFamilyPolicy"


def fill_policy(spec: JSON, old: JSON) -> None:
    """Fill in the family policy; an update without a policy keeps the old one.

    `old` is the spec before an update, empty for a new service.
    """
    if "ipFamilyPolicy" in spec:
        return
    if "ipFamilyPolicy" in old:
        spec["ipFamilyPolicy"] = old["ipFamilyPolicy"]
    elif _has_no_pods(spec):
        spec["ipFamilyPolicy"] = REQUIRE_DUAL
    else:
        spec["ipFamilyPolicy"] = SINGLE


def fill_families(spec: JSON, old: JSON, families: Sequence[str]) -> list[Cause]:
    """Fill in the families of a service with a policy; return the errors.

    `families` are those of the cluster, its default first.
    """
    causes = _trimmed(spec, old) if old else []
    causes += _contradictions(spec)
    causes += _infer_families(spec, families)
    if causes:
        return causes
    has_both = len(families) == _BOTH
    if not _has_no_pods(spec):
        causes = _unsupported(spec, families)
    elif not causes:
        has_both = True  # users make its endpoints, so that the cluster needs neither
    if causes:
        return causes
    wanted = spec.get("ipFamilies") or [families[0]]
    if spec["ipFamilyPolicy"] != SINGLE and len(wanted) < _BOTH and has_both:
        wanted = [*wanted, "IPv6" if wanted[0] == "IPv4" else "IPv4"]
    spec["ipFamilies"] = wanted
    return []


def keeps_families(old: JSON, new: JSON) -> bool:
    """Tell whether a service preferred two families before, and changes no family."""
    names = ("ipFamilies", "clusterIPs")
    return old.get("ipFamilyPolicy") == new.get(
        "ipFamilyPolicy"
    ) == PREFER_DUAL and all(old.get(name) == new.get(name) for name in names)


def _has_no_pods(spec: JSON) -> bool:
    """Tell whether a service is headless and selects no pods."""
    return is_headless(spec) and not spec.get("selector")


def _trimmed(spec: JSON, old: JSON) -> list[Cause]:
    """Drop the second address and family of a service that becomes single stack.

    An update that drops them and keeps the old policy is refused.
    """
    names = (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family"))
    if spec["ipFamilyPolicy"] == SINGLE:
        for name, _ in names:
            values = spec.get(name, [])
            if len(values) == _BOTH and values == old.get(name):
                spec[name] = values[:1]
        return []
    return [
        invalid(
            _POLICY,
            shown(spec["ipFamilyPolicy"]),
            f"must be 'SingleStack' to release the secondary {what}",
        )
        for name, what in names
        if len(old.get(name, [])) == _BOTH and len(spec.get(name, [])) == 1
    ]


def _contradictions(spec: JSON) -> list[Cause]:
    """Return the causes that a single stack has two addresses or families."""
    if spec["ipFamilyPolicy"] != SINGLE:
        return []
    return [
        invalid(
            _POLICY,
            shown(SINGLE),
            f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} "
            "are specified",
        )
        for name, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
        if len(spec.get(name, [])) == _BOTH
    ]


def _infer_families(spec: JSON, families: Sequence[str]) -> list[Cause]:
    """Add the family of each address that has no family at its position."""
    causes, found = [], list(spec.get("ipFamilies", []))
    addresses = spec.get("clusterIPs", [])
    for number, text in enumerate(addresses):
        address = parse_address(text)
        if address is None:
            break  # headless
        if number < len(found):
            continue
        family = family_of(address)
        if family in families:
            found.append(family)
        else:
            where = f"spec.clusterIPs[{number}]"
            detail = f"{family} is not configured on this cluster"
            causes.append(invalid(where, shown(addresses), detail))
    if found:
        spec["ipFamilies"] = found
    return causes


def _unsupported(spec: JSON, families: Sequence[str]) -> list[Cause]:
    causes = []
    policy = spec["ipFamilyPolicy"]
    if policy == REQUIRE_DUAL and len(families) < _BOTH:
        detail = "this cluster is not configured for dual-stack services"
        causes.append(invalid(_POLICY, shown(policy), detail))
    detail = "not configured on this cluster"
    causes += [
        invalid(f"spec.ipFamilies[{number}]", shown(family), detail)
        for number, family in enumerate(spec.get("ipFamilies", []))
        if family not in families
    ]
    return causes


# The node ports of services (pkg/registry/core/service/storage/alloc.go).

FIRST: Final = 30000
LAST: Final = 32767
_BAND: Final = 86
"""The number of ports at the beginning that are allocated last: users choose these."""

_OUT_OF_RANGE: Final = (
    "provided port is not in the valid range. The range of valid ports is "
    f"{FIRST}-{LAST}"
)


class NodePorts:
    """The node ports that one write of a service may use."""

    def __init__(self, own: set[int], storage: Storage) -> None:
        """Take the ports that the service had before; read those of other services."""
        self._own = own
        services = storage.collection("services")
        self._taken = own.union(*(node_ports_of(each.obj["spec"]) for each in services))
        self._free = self._unused()

    def check(self, port: int) -> str:
        """Take a port that a user chose; return the error, "" if it has none."""
        if not FIRST <= port <= LAST:
            return _OUT_OF_RANGE
        if port in self._taken and port not in self._own:
            return "provided port is already allocated"
        self._taken.add(port)
        return ""

    def next(self) -> int:
        """Take a free port; raises AllocationError if there is none."""
        port = next(self._free, None)
        if port is None:
            msg = "failed to allocate a nodePort: range is full"
            raise AllocationError(msg)
        return port

    def _unused(self) -> Iterator[int]:
        for port in (*range(FIRST + _BAND, LAST + 1), *range(FIRST, FIRST + _BAND)):
            if port not in self._taken:
                self._taken.add(port)
                yield port


def node_ports_of(spec: JSON) -> list[int]:
    """Return the node ports of a service, also the one for health checks."""
    ports = [each["nodePort"] for each in spec.get("ports", ()) if each.get("nodePort")]
    if health := spec.get("healthCheckNodePort"):
        ports.append(health)
    return ports


def assign_new(spec: JSON, node_ports: NodePorts) -> list[Cause]:
    """Give node ports to a new service; return the errors.

    Ports with the same number and another protocol have the same node port. A port that
    a user chose is kept also if the service gets no node ports. Raises AllocationError.
    """
    ports, causes = spec.get("ports", []), []
    given: dict[int, int] = {}
    for number, port in enumerate(ports):
        chosen, value = port.get("nodePort", 0), port.get("port", 0)
        if not chosen and not needs_node_ports(spec):
            continue
        if value in given and chosen in (0, given[value]):
            port["nodePort"] = given[value]
            continue
        chosen = chosen if value in given else _requested(value, ports)
        if chosen and (wrong := node_ports.check(chosen)):
            where = f"spec.ports[{number}].nodePort"
            causes.append(invalid(where, shown(chosen), wrong))
        port["nodePort"] = chosen or node_ports.next()
        given.setdefault(value, port["nodePort"])
    return causes


def assign_changed(spec: JSON, node_ports: NodePorts) -> list[Cause]:
    """Give node ports to the ports of a changed service that need one.

    Returns the errors in ports that a user chose. Raises AllocationError.
    """
    causes, seen = [], set()
    for number, port in enumerate(spec.get("ports", [])):
        chosen = port.get("nodePort", 0)
        if not chosen and needs_node_ports(spec):
            port["nodePort"] = node_ports.next()
        if not chosen or chosen in seen:
            continue  # ports of two protocols may have one
        seen.add(chosen)
        if wrong := node_ports.check(chosen):
            where = f"spec.ports[{number}].nodePort"
            causes.append(invalid(where, shown(chosen), wrong))
    return causes


def _requested(value: int, ports: list[JSON]) -> int:
    """Return the node port that a user chose for a port with that number, or 0."""
    chosen = [each.get("nodePort", 0) for each in ports if each.get("port") == value]
    return next(filter(None, chosen), 0)


# Allocates addresses and node ports to services, and releases them.


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
            objects.delete(IP_ADDRESSES, "", name, Deletion())
    for name in sorted(after - before):
        address = parse_address(name)
        if new is None or address is None or collection.get(("", name)) is not None:
            continue
        note_taken(objects.storage, name)
        metadata = new["metadata"]
        service = {each: metadata[each] for each in ("namespace", "name")}
        labels = {
            "ipaddress.kubernetes.io/ip-family": family_of(address),
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }
        obj = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"parentRef": {"resource": "services", **service}},
        }
        objects.create(IP_ADDRESSES, "", obj)


def _addresses_of(obj: JSON | None) -> set[str]:
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
