"""The user of a request, for authentication and authorisation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """The user who sends a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))
