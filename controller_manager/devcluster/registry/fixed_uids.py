"""The uids of objects that the API server creates itself."""

import uuid
from functools import lru_cache


@lru_cache(maxsize=1024)
def fixed_uid(seed: str) -> str:
    """Return a uid that follows from `seed`.

    It is not random, so the random sequence of a cluster begins with the objects of
    users.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, seed))
