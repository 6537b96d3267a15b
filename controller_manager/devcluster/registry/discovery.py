"""EndpointSlice: some of the endpoints of a service (pkg/apis/discovery/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.validation import values

from .kinds import kind_of

_MOST_HINTS: Final = 8


def _addresses(endpoint: JSON, path: str, around: JSON) -> Iterator[statuses.Cause]:
    """Check the addresses by the type of the slice."""
    kind = around.get("addressType")
    check = _name if kind == "FQDN" else _address
    for number, address in enumerate(endpoint.get("addresses") or ()):
        if kind in ("FQDN", "IPv4", "IPv6"):
            yield from check(address, f"{path}addresses[{number}]", kind)


def _address(address: str, field: str, family: str) -> Iterator[statuses.Cause]:
    if values.is_in_family(address, "IPv6" if family == "IPv4" else "IPv4"):
        yield statuses.invalid(
            field, statuses.shown(address), f"must be an {family} address"
        )
    yield from values.validate_endpoint_address(address, field)


def _name(name: str, field: str, _: str) -> Iterator[statuses.Cause]:
    causes = names.validate_subdomain(name.removesuffix("."), field)
    yield from causes
    if not causes and "." not in name:
        detail = "should be a domain with at least two segments separated by dots"
        yield statuses.invalid(field, statuses.shown(name), detail)


def _hints(hints: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    for group in ("forZones", "forNodes"):
        found = [each.get("name", "") for each in hints.get(group, [])]
        where = f"{path}{group}"
        if len(found) > _MOST_HINTS:
            yield statuses.too_many(where, len(found), _MOST_HINTS)
            continue
        for number, name in enumerate(found):
            at = f"{where}[{number}].name"
            if name in found[:number]:
                yield statuses.duplicate(at, statuses.shown(name))
            yield from names.validate_labels({"name": name}, at)


class _SliceStrategy(Strategy):
    """Labels count as content."""

    def changes_generation(self, old: JSON, new: JSON) -> bool:
        """Tell whether an update makes a new generation."""
        labels = [each["metadata"].get("labels", {}) for each in (old, new)]
        return labels[0] != labels[1] or super().changes_generation(old, new)


def _ports(obj: JSON) -> list[str]:
    return [
        str(each.get("port") or each.get("name") or "*") for each in obj["ports"] or ()
    ]


def _endpoints(obj: JSON) -> list[str]:
    endpoints = obj["endpoints"] or ()
    return [address for each in endpoints for address in each["addresses"]]


SLICES: Final = kind_of(
    "discovery.k8s.io/v1",
    "endpointslices",
    _SliceStrategy(),
    counts_generations=True,
    defaults={"ports[]": {"name": "", "protocol": "TCP"}},
    rules="""
        addressType: required
        addressType: enum FQDN IPv4 IPv6 filled
        endpoints: most 1000
        when endpoints not-above 1000:
          endpoints[]:
            addresses: required "must contain at least 1 address"
            addresses: most 100
            hook addresses
            nodeName: subdomain pointer
            deprecatedTopology: labels
            hostname: label pointer
            hints:
              hook hints
        ports: most 20000
        when ports not-above 20000:
          ports[]:
            name: label
            name: unique pointer
            protocol: enum SCTP TCP UDP default null
            appProtocol: qualified pointer
        """,
    update_rules="addressType: immutable default empty",
    printer="""
        Name
        AddressType: .addressType
        Ports: few ports or <unset>
        Endpoints: few endpoints or <unset>
        Age
        """,
)
