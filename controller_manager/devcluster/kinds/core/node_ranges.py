"""The ranges of addresses that a node has for its pods (ValidateNode)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    shown,
)
from controller_manager.devcluster.validation.ip_addresses import (
    NOT_A_RANGE,
    range_version,
)

_SET_ONCE: Final = 'node updates may not change podCIDR except from "" to valid'


def default_ranges(spec: JSON) -> None:
    """Make the older field the first entry of the list, as the conversions do."""
    first, listed = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and listed[:1] != [first]:
        spec["podCIDRs"] = [first]
    elif listed:
        spec["podCIDR"] = listed[0]


def validate_ranges(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that there is one range at most of each address family."""
    ranges, where = spec.get("podCIDRs") or [], f"{path}podCIDRs"
    versions = [range_version(each) for each in ranges]
    for number, version in enumerate(versions):
        if version is None:
            yield invalid(f"{where}[{number}]", shown(ranges[number]), NOT_A_RANGE)
    if None not in versions and len({*versions}) < len(versions):
        detail = "may specify no more than one CIDR for each IP family"
        yield invalid(where, shown({"podCIDRs": ranges}), detail)


def validate_change_of_ranges(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that ranges which a node has stay as they are."""
    had = old.get("podCIDRs") or []
    if had and had != (spec.get("podCIDRs") or []):
        yield forbidden_field(f"{path}podCIDRs", _SET_ONCE)
