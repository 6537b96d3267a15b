"""The address families of a service (pkg/registry/core/service/storage/alloc.go)."""

from collections.abc import Sequence
from typing import Any, Final

from controller_manager.devcluster.kinds.core.service_fields import is_headless
from controller_manager.devcluster.kinds.ip_addresses import family_of, parse_address
from controller_manager.devcluster.server.statuses import Cause, invalid, shown

JSON = dict[str, Any]

SINGLE: Final = "SingleStack"
PREFER_DUAL: Final = "PreferDualStack"
REQUIRE_DUAL: Final = "RequireDualStack"
_BOTH: Final = 2


def fill_families(spec: JSON, families: Sequence[str]) -> list[Cause]:
    """Fill in the policy and the families of a service with addresses.

    `families` are those of the cluster, its default first. Returns what is wrong.
    """
    given = spec.get("ipFamilies", [])
    addresses = spec.get("clusterIPs", [])
    policy = spec.get("ipFamilyPolicy")
    if policy is None and _BOTH in (len(addresses), len(given)):
        policy = REQUIRE_DUAL
    wanted = _with_families_of(addresses, given)
    if is_headless(spec) and not spec.get("selector"):
        return _fill_without_selector(spec, policy, wanted, families[0])
    causes = _unsupported(policy, wanted, families)
    if causes:
        return causes
    policy = policy or SINGLE
    wanted = wanted or [families[0]]
    if policy != SINGLE and len(wanted) < _BOTH <= len(families):
        wanted.append(_other(wanted[0]))
    spec["ipFamilyPolicy"], spec["ipFamilies"] = policy, wanted
    return []


def trim_families(old: JSON, new: JSON) -> None:
    """Drop the second family and address of a service that becomes single stack."""
    was_dual = old.get("ipFamilyPolicy") in (PREFER_DUAL, REQUIRE_DUAL)
    if not was_dual or new.get("ipFamilyPolicy") != SINGLE:
        return
    for name in ("clusterIPs", "ipFamilies"):
        values = new.get(name, [])
        if len(values) == _BOTH and (name == "clusterIPs" or values == old.get(name)):
            new[name] = values[:1]


def keeps_families(old: JSON, new: JSON) -> bool:
    """Tell whether a service prefers two families, as before, and changes none."""
    names = ("ipFamilies", "clusterIPs")
    return (
        old.get("ipFamilyPolicy") == new.get("ipFamilyPolicy") == PREFER_DUAL
        and old.get("type") == new.get("type")
        and all(old.get(name) == new.get(name) for name in names)
    )


def _with_families_of(addresses: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return the given families, and those of addresses beyond them."""
    families = list(given)
    for text in addresses[len(families) :]:
        address = parse_address(text)
        if address is None:
            break  # headless, or an address that validation will refuse
        families.append(family_of(address))
    return families


def _fill_without_selector(
    spec: JSON, policy: str | None, wanted: list[str], default: str
) -> list[Cause]:
    """Fill in the families of a headless service whose endpoints users make.

    It may have both families on any cluster.
    """
    wanted = wanted or [default]
    if len(wanted) < _BOTH and policy != SINGLE:
        wanted.append(_other(wanted[0]))
    spec["ipFamilyPolicy"] = policy or REQUIRE_DUAL
    spec["ipFamilies"] = wanted
    return []


def _unsupported(
    policy: str | None, wanted: Sequence[str], families: Sequence[str]
) -> list[Cause]:
    causes = []
    if policy == REQUIRE_DUAL and len(families) < _BOTH:
        detail = "this cluster is not configured for dual-stack services"
        causes.append(invalid("spec.ipFamilyPolicy", shown(policy), detail))
    causes += [
        invalid(
            f"spec.ipFamilies[{number}]",
            shown(family),
            "not configured on this cluster",
        )
        for number, family in enumerate(wanted)
        if family in ("IPv4", "IPv6") and family not in families
    ]
    return causes


def _other(family: str) -> str:
    return "IPv6" if family == "IPv4" else "IPv4"
