"""ServiceCIDR: a range of addresses for services."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.ip_addresses import (
    NOT_A_RANGE,
    range_version,
)

_MOST: Final = 2


class ServiceCIDRStrategy(Strategy):
    """One range for each address family; a second family may be added later."""

    columns: ClassVar = (NAME, Column("CIDRs"), AGE)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the ranges."""
        return validate_ranges(obj["spec"].get("cidrs", []))

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that at most a second address family was added."""
        before, after = (each["spec"].get("cidrs", []) for each in (old, new))
        if after[: len(before)] == before:
            return ()
        value = shown({"cidrs": after})
        return (invalid("spec.cidrs", value, "field is immutable"),)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), ",".join(obj["spec"].get("cidrs", [])), age(obj, now)]


def validate_ranges(ranges: list[str]) -> list[Cause]:
    """Check the ranges of a ServiceCIDR."""
    if not ranges:
        return [required("spec.cidrs", "at least one CIDR required")]
    if len(ranges) > _MOST:
        detail = f"may only hold up to {_MOST} values"
        return [invalid("spec.cidrs", shown({"cidrs": ranges}), detail)]
    causes, versions = [], []
    for number, text in enumerate(ranges):
        field = f"spec.cidrs[{number}]"
        if (version := range_version(text)) is None:
            causes.append(invalid(field, shown(text), NOT_A_RANGE))
        versions.append(version)
    if not causes and len(versions) == _MOST and len(set(versions)) < _MOST:
        detail = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 "
            "and 2001:db8::/64"
        )
        causes.append(invalid("spec.cidrs", shown({"cidrs": ranges}), detail))
    return causes


KIND: Final = kind_of("networking.k8s.io/v1", "servicecidrs", ServiceCIDRStrategy())
