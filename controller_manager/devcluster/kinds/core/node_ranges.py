"""The ranges of addresses that a node has for its pods (ValidateNode)."""

from collections.abc import Sequence
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

_FIELD: Final = "spec.podCIDRs"
_MOST: Final = 2
_SET_ONCE: Final = 'node updates may not change podCIDR except from "" to valid'


def default_ranges(spec: JSON) -> None:
    """Make the older field the first entry of the list, as the conversions do."""
    first, listed = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and listed[:1] != [first]:
        spec["podCIDRs"] = [first]
    elif listed:
        spec["podCIDR"] = listed[0]


def validate_ranges(spec: JSON) -> Sequence[Cause]:
    """Check that there is one range at most of each address family."""
    ranges = spec.get("podCIDRs") or []
    causes = [
        invalid(f"{_FIELD}[{number}]", shown(each), NOT_A_RANGE)
        for number, each in enumerate(ranges)
        if range_version(each) is None
    ]
    versions = {range_version(each) for each in ranges}
    if not causes and (len(ranges) > _MOST or len(versions) < len(ranges)):
        detail = "may specify no more than one CIDR for each IP family"
        causes.append(invalid(_FIELD, shown({"podCIDRs": ranges}), detail))
    return causes


def validate_change_of_ranges(old: JSON, new: JSON) -> Sequence[Cause]:
    """Check that ranges which a node has stay as they are."""
    had = old.get("podCIDRs") or []
    if not had or had == (new.get("podCIDRs") or []):
        return ()
    return (forbidden_field(_FIELD, _SET_ONCE),)
