"""What the controllers share that watch all resources which the API server serves.

These are the garbage collector and the quota controller: they discover resources with
the same delays, and change to another version of a resource at the same time, so that
they share one watch.
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


_SUPERSEDED: Final = 60.0
"""Seconds after which the version that the API server prefers is watched instead."""


def definitions_handler(changed: Callable[[], None]) -> Handler[Any]:
    """Return a handler that calls `changed` after each change of a definition."""
    return Handler(lambda _: changed(), lambda _, __: changed(), lambda _: changed())


class SupersededVersions:
    """Remembers since when the API server prefers another version than the watched one.

    During an upgrade each of several API servers prefers its own version. So a change
    counts only when it has lasted for a minute; upstream follows it at once.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def supersedes(
        self, name: tuple[str, str], watched: str, preferred: str | None, now: float
    ) -> bool:
        """Tell whether another version has been preferred for a minute.

        `name` is the group and the plural of a resource, `watched` and `preferred` are
        values of apiVersion; `preferred` is `None` if none is known. `now` is a
        monotonic time in seconds.
        """
        if preferred is None or preferred == watched:
            self.forget(name)
            return False
        return now - self._since.setdefault(name, now) >= _SUPERSEDED

    def forget(self, name: tuple[str, str]) -> None:
        """Forget a resource that is not watched any more."""
        self._since.pop(name, None)
