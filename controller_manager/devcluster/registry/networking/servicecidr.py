"""ServiceCIDR: a range of addresses for services."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.field_values import IMMUTABLE
from controller_manager.devcluster.validation.ip_addresses import (
    NOT_A_RANGE,
    range_version,
)
from controller_manager.devcluster.validation.text import table

_MOST: Final = 2


def validate_ranges(ranges: list[str], field: str) -> list[Cause]:
    """Check the ranges of a ServiceCIDR."""
    if not ranges:
        return [required(field, "at least one CIDR required")]
    if len(ranges) > _MOST:
        detail = f"may only hold up to {_MOST} values"
        return [invalid(field, shown({"cidrs": ranges}), detail)]
    causes, versions = [], []
    for number, text in enumerate(ranges):
        where = f"{field}[{number}]"
        if (version := range_version(text)) is None:
            causes.append(invalid(where, shown(text), NOT_A_RANGE))
        versions.append(version)
    if not causes and len(versions) == _MOST and len(set(versions)) < _MOST:
        detail = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 "
            "and 2001:db8::/64"
        )
        causes.append(invalid(field, shown({"cidrs": ranges}), detail))
    return causes


def _more(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that at most a second address family was added."""
    before, after = old.get("cidrs", []), spec.get("cidrs", [])
    if after[: len(before)] != before:
        yield invalid(f"{path}cidrs", shown({"cidrs": after}), IMMUTABLE)


_RANGES: Final = table(
    """
    spec:
      cidrs: ranges default empty
    """,
    validate_ranges,
)
_UPDATE: Final = table(
    """
    spec change:
      hook more
    """,
    _more,
)


class ServiceCIDRStrategy(Strategy):
    """One range for each address family; a second family may be added later."""

    rules: ClassVar = _RANGES
    update_rules: ClassVar = _UPDATE
    columns: ClassVar = (NAME, Column("CIDRs"), AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), ",".join(obj["spec"].get("cidrs", [])), age(obj, now)]


KIND: Final = kind_of("networking.k8s.io/v1", "servicecidrs", ServiceCIDRStrategy())
