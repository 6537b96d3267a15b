"""Random uids."""

from random import Random
from typing import Final

_VERSION: Final = 0xF000 << 64, 0x4000 << 64
_VARIANT: Final = 0xC000 << 48, 0x8000 << 48
"""Masks of the bits that say that a uid is random, and the values of these bits."""

_KEPT: Final = ~(_VERSION[0] | _VARIANT[0])
_SET: Final = _VERSION[1] | _VARIANT[1]


def random_uid(rng: Random) -> str:
    """Return a random uid (version 4).

    The text is that of ``uuid.UUID``, which takes three times as long: each write of a
    client needs two uids.
    """
    text = f"{rng.getrandbits(128) & _KEPT | _SET:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
