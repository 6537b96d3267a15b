"""Random uids, and the source of their bits."""

import os
import random
import uuid

import pytest

from controller_manager.devcluster.server.apimachinery.uids import (
    BufferedRandom,
    random_uid,
)


def test_a_uid_is_that_of_the_same_bits_in_version_4() -> None:
    """As ``uuid.UUID`` writes it."""
    seed = random.randrange(2**32)
    expected = str(uuid.UUID(int=random.Random(seed).getrandbits(128), version=4))
    assert random_uid(random.Random(seed)) == expected


def test_bits_are_fetched_in_advance_and_used_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A number takes whole bytes, and a large one more than are fetched otherwise."""
    sizes: list[int] = []

    def urandom(size: int) -> bytes:
        sizes.append(size)
        return bytes(each % 251 for each in range(size))

    monkeypatch.setattr(os, "urandom", urandom)
    rng = BufferedRandom()
    assert [rng.getrandbits(8), rng.getrandbits(12), rng.getrandbits(0)] == [0, 16, 0]
    assert rng.getrandbits(16) == 0x0304
    assert sizes == [4096]
    assert rng.getrandbits(8 * 5000).bit_length() <= 8 * 5000
    assert sizes == [4096, 5000]
    assert rng.getrandbits(8) == 0
    assert sizes == [4096, 5000, 4096]


def test_all_bits_are_random() -> None:
    """Each is set in about half of the numbers."""
    rng = BufferedRandom()
    numbers = [rng.getrandbits(128) for _ in range(2000)]
    assert len({*numbers}) == len(numbers)
    counts = [sum(each >> bit & 1 for each in numbers) for bit in range(128)]
    assert min(counts) > 700
    assert max(counts) < 1300
