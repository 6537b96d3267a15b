"""Differences between two states of an object, and which of them are allowed."""

from collections.abc import Callable, Iterator
from typing import Any, Final

Path = tuple[str, ...]

Change = Callable[[Path, Any, Any], bool]
"""Tells whether the value at a path may change from one value to another."""

_MANAGERS: Final = ("metadata", "managedFields")
_SERVERS: Final = (("metadata", "resourceVersion"), ("metadata", "generation"))


def differences(
    before: Any, after: Any, path: Path = ()
) -> Iterator[tuple[Path, Any, Any]]:
    """Yield each path at which two objects differ, with both values.

    Which manager has which field is left aside: the server records it.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            if (*path, key) == _MANAGERS:
                continue
            yield from differences(before.get(key), after.get(key), (*path, key))
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
    ):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, (*path, str(number)))
    elif before != after:
        yield path, before, after


def only(*allowed: Path) -> Change:
    """Allow changes below some paths, and of the fields that the server counts."""

    def may(path: Path, _: Any, __: Any) -> bool:
        return path in _SERVERS or any(path[: len(each)] == each for each in allowed)

    return may
