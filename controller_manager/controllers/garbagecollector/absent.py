"""Owners of which the API server has said that they do not exist."""

from typing import Final

from controller_manager.controllers.garbagecollector.graph import Identity

_MOST: Final = 500
"""As many as upstream remembers; of a chain of owners the last ones matter."""


class AbsentOwners:
    """Remembers whom the API server does not have, so that it is asked once.

    A uid comes back only with a store that is restored, so this stays true until
    then. Only answers of the API server
    count: upstream adds what a watch saw go, and a watch can be wrong.
    """

    def __init__(self) -> None:
        """Start with nobody."""
        self._identities: dict[Identity, None] = {}

    def __contains__(self, identity: Identity) -> bool:
        """Tell whether there is known to be no such object."""
        return identity in self._identities

    def clear(self) -> None:
        """Forget all of them."""
        self._identities.clear()

    def add(self, identity: Identity) -> None:
        """Note that there is no such object."""
        self._identities.pop(identity, None)
        self._identities[identity] = None
        if len(self._identities) > _MOST:
            del self._identities[next(iter(self._identities))]
