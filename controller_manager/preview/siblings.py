"""The objects of one owner, and when the preview saw those of the manager in charge.

If watches are late, the two managers may see the changes of a user in different steps:
one of them makes a replica set for a template that the other never saw. Then both
numbers of a later revision are right, each for its manager.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from .fields import JSON
from .ledger import Owner

_KEPT: Final = 4_000


class _Seen(Struct):
    owner: Owner
    at: float
    created: str


class Siblings:
    """When the preview saw each new object with an owner for the first time."""

    def __init__(self) -> None:
        """Start empty."""
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def observe(self, owner: Owner, obj: JSON, at: float) -> None:
        """Remember when a new object of the server was seen, in seconds."""
        metadata = obj.get("metadata", {})
        uid = str(metadata.get("uid", ""))
        if not owner.uid or uid in self._seen:
            return
        created = str(metadata.get("creationTimestamp", ""))
        self._seen[uid] = _Seen(owner, at, created)
        if len(self._seen) > _KEPT:
            self._seen.popitem(last=False)

    def came_late(self, owner: Owner, obj: JSON, decided: float) -> bool:
        """Tell whether the preview did not know a sibling of an object in time.

        The server had the sibling when the object was created, and the preview saw it
        only after it had `decided` to create the object, in seconds.
        """
        metadata = obj.get("metadata", {})
        uid, created = metadata.get("uid"), str(metadata.get("creationTimestamp", ""))
        return any(
            seen.owner == owner and seen.at > decided and seen.created <= created
            for other, seen in self._seen.items()
            if other != uid
        )
