"""The ends of the seeds of a commit, as they were without faults.

They show what is wrong with faults and without. A change of the product that is wanted
and changes an end changes this file: ``python -m tests.world --record``.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from .end import State

SEEDS: Final = range(20)
"""The seeds of each commit; each commit plays the same."""

_FILE: Final = Path(__file__).parents[1] / "data" / "world-ends.json"

Digests = Mapping[str, str]
"""A digest of all objects of each plural and family of names."""


def digests(state: State) -> Digests:
    """Return the digests of an end."""
    return {where: _digest(found) for where, found in sorted(state.items())}


def _digest(found: Counter[str]) -> str:
    text = json.dumps(sorted(found.items()))
    return blake2b(text.encode(), digest_size=4).hexdigest()


@cache
def recorded() -> Mapping[str, Digests]:
    """Return what is recorded, by seed."""
    found: Mapping[str, Digests] = json.loads(_FILE.read_text())
    return found


def is_recorded(seed: int, state: State) -> bool:
    """Tell whether the end of a seed is as it was recorded."""
    return recorded().get(str(seed)) == digests(state)


def unlike(seed: int, state: State, about: str = "") -> Iterable[str]:
    """Yield what is not as it was recorded, and what it is now.

    Only what has `about` in its name is compared.
    """
    if (then := recorded().get(str(seed))) is not None:
        now = digests(state)
        for where in sorted(then.keys() | now.keys()):
            if about in where and then.get(where) != now.get(where):
                is_now = " and ".join(sorted(state.get(where, ()))) or "nothing"
                yield f"{where} was recorded otherwise, it is {is_now}"


def record(seed: int, state: State | None) -> None:
    """Write the end of a seed; `None` forgets it, so that nothing is compared."""
    found = {**recorded()}
    found.pop(str(seed), None)
    if state is not None:
        found[str(seed)] = digests(state)
    lines = [f'"{each}": {json.dumps(found[each])}' for each in sorted(found, key=int)]
    _FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    recorded.cache_clear()
