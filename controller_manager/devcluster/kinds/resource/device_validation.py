"""The rules for devices: their pools and taints (pkg/apis/resource/validation)."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.scheme.names import validate_subdomain
from controller_manager.devcluster.scheme.statuses import Cause, required, too_long
from controller_manager.devcluster.validation.text import table

_LONGEST_POOL: Final = 253


def validate_pool(name: str, field: str) -> Iterator[Cause]:
    """Check the name of a pool: subdomains with slashes between them."""
    if not name:
        yield required(field)
        return
    if len(name) > _LONGEST_POOL:
        yield too_long(field, _LONGEST_POOL)
    for part in name.split("/"):
        yield from validate_subdomain(part, field)


DEVICE_TAINT: Final = table(
    """
    key: qualified default empty
    value: label-value
    effect: required
    effect: enum NoExecute NoSchedule None if effect is-not empty
    """
)


def fill_in_times(taints: Sequence[JSON], now: datetime | str) -> None:
    """Set ``timeAdded`` of each taint without it to the present time."""
    time = now if isinstance(now, str) else format_time(now)
    for taint in taints:
        if not taint.get("timeAdded"):
            taint["timeAdded"] = time
