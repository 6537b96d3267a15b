"""Tells controllers that watch all resources of changed custom resource definitions.

The garbage collector and the quota controller discover resources with these delays.
"""

from collections.abc import Callable
from typing import Any, Final

from controller_manager.informers.dispatch import Handler

DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
"""Group and plural name of custom resource definitions."""

REDISCOVER: Final = 30.0
"""Seconds between two discoveries."""

ESTABLISHING: Final = 1.0
"""Seconds from a change of a definition until its resource is served."""

INITIAL_SYNC: Final = 30.0
"""Seconds to wait for all resources; one that cannot be listed must not stop the
work on the others."""


def definitions_handler(changed: Callable[[], None]) -> Handler[Any]:
    """Return a handler that calls `changed` after each change of a definition."""
    return Handler(
        on_add=lambda _: changed(),
        on_update=lambda _, __: changed(),
        on_delete=lambda _: changed(),
    )
