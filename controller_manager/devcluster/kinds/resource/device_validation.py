"""Validation of devices: their names, taints and tolerations (pkg/apis/resource)."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.scheme.names import (
    validate_label,
    validate_labels,
    validate_qualified_name,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    not_supported,
    required,
    shown,
    too_long,
    too_many,
)

_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_MAX_DRIVER: Final = 63
_MAX_POOL: Final = 253
_MAX_TAINTS: Final = 16


def validate_driver(name: str, field: str) -> Iterator[Cause]:
    """Yield the errors in the name of a driver."""
    if not name:
        yield required(field)
        return
    if len(name) > _MAX_DRIVER:
        yield too_long(field, _MAX_DRIVER)
    yield from validate_subdomain(name.lower(), field)


def validate_pool(name: str, field: str) -> Iterator[Cause]:
    """Yield the errors in the name of a pool: subdomains with slashes between them."""
    if not name:
        yield required(field)
        return
    if len(name) > _MAX_POOL:
        yield too_long(field, _MAX_POOL)
    for part in name.split("/"):
        yield from validate_subdomain(part, field)


def validate_device_name(name: str, field: str) -> Sequence[Cause]:
    """Return the errors in the name of a device."""
    return validate_label(name, field)


def validate_taints(taints: Sequence[JSON], field: str) -> Iterator[Cause]:
    """Yield the errors in the taints of a device."""
    if len(taints) > _MAX_TAINTS:
        yield too_many(field, len(taints), _MAX_TAINTS)
    for number, taint in enumerate(taints):
        yield from validate_taint(taint, f"{field}[{number}]")


def validate_taint(taint: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors in one taint of devices."""
    yield from validate_qualified_name(taint.get("key", ""), f"{field}.key")
    if value := taint.get("value"):
        yield from validate_labels({"key": value}, f"{field}.value")
    effect = taint.get("effect", "")
    if not effect:
        yield required(f"{field}.effect")
    elif effect not in _EFFECTS:
        yield not_supported(f"{field}.effect", shown(effect), _EFFECTS)


def fill_in_times(taints: Sequence[JSON], now: datetime | str) -> None:
    """Set ``timeAdded`` of each taint without it to the present time."""
    time = now if isinstance(now, str) else format_time(now)
    for taint in taints:
        if not taint.get("timeAdded"):
            taint["timeAdded"] = time
