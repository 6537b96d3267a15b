"""Finds watched versions of resources that the API server does not prefer any more.

The API server prefers one version of a group. Controllers that watch all served
resources use it, so that they share one watch. Upstream changes to another preferred
version at once.
"""

from typing import Final

_SUPERSEDED: Final = 60.0
"""Seconds after which the version that the API server prefers is watched instead."""


class SupersededVersions:
    """Remembers since when the API server prefers another version than the watched one.

    During an upgrade each of several API servers prefers its own version. A change
    counts only when it has lasted for a minute.
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
