"""Random uids."""

import os
from random import Random, SystemRandom
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


_BUFFER: Final = 4096


class BufferedRandom(SystemRandom):
    """The random numbers of the operating system, of which it fetches some in advance.

    A cluster needs several uids for each pod, and a call of the system for each of them
    takes longer than the rest. Two processes never share it: it cannot be pickled, and
    the cluster does not fork.
    """

    def __init__(self) -> None:
        """Begin without numbers."""
        super().__init__()
        self._bytes = b""
        self._used = 0

    def getrandbits(self, k: int, /) -> int:
        """Return a random number with at most `k` bits."""
        size = (k + 7) // 8
        end = self._used + size
        if end > len(self._bytes):
            self._bytes, self._used, end = os.urandom(max(_BUFFER, size)), 0, size
        taken = self._bytes[self._used : end]
        self._used = end
        return int.from_bytes(taken) >> (size * 8 - k)
