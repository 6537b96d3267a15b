"""Validation of a service's addresses and their families.

Upstream: ValidateServiceClusterIPsRelatedFields, ValidateServiceUpdate.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.ip_addresses import (
    is_in_family,
    validate_address,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
    too_many,
)

from .families import PREFER_DUAL, REQUIRE_DUAL, SINGLE
from .fields import EXTERNAL_NAME, HEADLESS

_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = (PREFER_DUAL, REQUIRE_DUAL, SINGLE)
_MOST: Final = 2
_ONCE: Final = "may not change once set"


def validate_addresses(spec: JSON) -> list[Cause]:
    """Check the addresses of a service, its families, and the policy."""
    if spec.get("type") == EXTERNAL_NAME:
        detail = "may not be used when `type` is 'ExternalName'"
        names = ("ipFamilies", "ipFamilyPolicy")
        return [
            forbidden_field(f"spec.{name}", detail) for name in names if spec.get(name)
        ]
    return [*_validate_families(spec), *_validate_cluster_ips(spec)]


def _validate_families(spec: JSON) -> list[Cause]:
    families, policy = spec.get("ipFamilies", []), spec.get("ipFamilyPolicy")
    causes = []
    for number, family in enumerate(families):
        field = f"spec.ipFamilies[{number}]"
        if family not in _FAMILIES:
            causes.append(not_supported(field, shown(family), _FAMILIES))
        elif family in families[:number]:
            causes.append(duplicate(field, shown(family)))
    if policy is not None and policy not in _POLICIES:
        causes.append(not_supported("spec.ipFamilyPolicy", shown(policy), _POLICIES))
    return causes


def _validate_cluster_ips(spec: JSON) -> list[Cause]:
    addresses: list[str] = spec.get("clusterIPs", [])
    primary, families = spec.get("clusterIP", ""), spec.get("ipFamilies", [])
    if primary and not addresses:
        return [required("spec.clusterIPs")]
    causes = []
    if addresses and primary != addresses[0]:
        detail = "must be empty when `clusterIP` is not specified"
        if primary:
            detail = "first value must match `clusterIP`"
        causes.append(invalid("spec.clusterIPs", shown(addresses), detail))
    if len(addresses) > _MOST:
        causes.append(too_many("spec.clusterIPs", len(addresses), _MOST))
    for number, address in enumerate(addresses[:_MOST]):
        field = f"spec.clusterIPs[{number}]"
        if address == HEADLESS:
            if len(addresses) > 1:
                detail = "'None' must be the first and only value"
                causes.append(invalid(field, shown(address), detail))
            continue
        if wrong := validate_address(address, field):
            causes += wrong
        elif number < len(families) and not is_in_family(address, families[number]):
            which = f"`ipFamilies[{number}]`"
            detail = f"expected an {families[number]} value as indicated by {which}"
            causes.append(invalid(field, shown(address), detail))
    return causes


def validate_kept_addresses(old: JSON, new: JSON) -> list[Cause]:
    """Check that an update keeps the first address and the first family."""
    if EXTERNAL_NAME in (old.get("type"), new.get("type")):
        return []
    causes = []
    for name in ("clusterIPs", "ipFamilies"):
        before, after = old.get(name, []), new.get(name, [])
        if before and before[:1] != after[:1]:
            causes.append(invalid(f"spec.{name}[0]", shown(after), _ONCE))
        both = len(before) == len(after) == _MOST
        if both and before[1] != after[1]:
            causes.append(invalid(f"spec.{name}[1]", shown(after), _ONCE))
    return causes
