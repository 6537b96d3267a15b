"""Random uids."""

from random import Random
from uuid import UUID


def random_uid(rng: Random) -> str:
    """Return a random uid (version 4)."""
    return str(UUID(int=rng.getrandbits(128), version=4))
