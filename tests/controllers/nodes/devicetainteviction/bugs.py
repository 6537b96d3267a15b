"""Deliberate bugs of the device taint eviction controller."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.controllers.nodes.devicetainteviction import claims
from controller_manager.controllers.nodes.devicetainteviction.controller import (
    DeviceTaintEviction,
)
from tests.simulation.planted import Bug

_BREAKS: Final = "device-breaks-while-no-manager-runs"


async def _trust_the_cache(*_: Any) -> bool:
    return True


def _not_at_all(*_: Any) -> int:
    return 0


BUGS: Final[Mapping[str, Bug]] = {
    "evict from a device that is well again": Bug(
        0,
        DeviceTaintEviction,
        "_is_confirmed",
        _trust_the_cache,
        "watch-of-slices-is-silent",
    ),
    "ignore tolerations of claims": Bug(0, claims, "_tolerated", _not_at_all, _BREAKS),
    "ignore changes of slices": Bug(
        0, DeviceTaintEviction, "_slice_updated", lambda *_: None, _BREAKS
    ),
    "ignore rules": Bug(
        0, DeviceTaintEviction, "_rule_changed", lambda *_: None, "rule-taints-a-device"
    ),
}
