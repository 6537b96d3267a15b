"""The address families of a service (pkg/registry/core/service/storage/alloc.go)."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.validation.ip_addresses import (
    family_of,
    parse_address,
)

from .fields import is_headless

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
