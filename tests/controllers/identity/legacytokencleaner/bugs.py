"""Deliberate bugs of the cleaner of legacy tokens."""

from collections.abc import Collection, Mapping
from typing import Final

from controller_manager.controllers.identity.legacytokencleaner import controller
from controller_manager.controllers.identity.legacytokencleaner.controller import (
    Decision,
    LegacyTokenCleaner,
)
from tests.simulation.planted import Bug

_UNUSED: Final = "legacy-tokens-without-use"
_TRACKED: Final = "use-of-legacy-tokens-is-tracked-since-today"


async def _used_nowhere(_: LegacyTokenCleaner, __: str) -> Collection[str]:
    return ()


async def _always_tracked(_: LegacyTokenCleaner) -> bool:
    return True


BUGS: Final[Mapping[str, Bug]] = {
    "count used legacy tokens as unused": Bug(
        0, controller, "is_unused", lambda *_: True, _UNUSED
    ),
    "clean up the tokens that users made": Bug(
        0, controller, "is_generated_for", lambda *_: True, _UNUSED
    ),
    "overlook the pods that use a token": Bug(
        0, LegacyTokenCleaner, "_used_in", _used_nowhere, _UNUSED
    ),
    "delete legacy tokens without a warning": Bug(
        0, controller, "decide_unused", lambda *_: Decision.DELETE, _UNUSED
    ),
    "delete no legacy token": Bug(
        0, controller, "decide_unused", lambda *_: Decision.INVALIDATE, _UNUSED
    ),
    "clean up before use was tracked": Bug(
        0, LegacyTokenCleaner, "_is_tracked", _always_tracked, _TRACKED
    ),
}
