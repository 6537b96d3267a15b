"""The JSON patch between an object and what a typed function has made of it.

A type may lack fields that the object has. So the difference of the two typed forms is
merged into the object itself, and the patch leads from the object to the result.
"""

import operator
from collections.abc import Iterator
from typing import Any

from controller_manager.api.json_objects import JSON


def patch_of(given: JSON, old: JSON, new: JSON) -> list[JSON]:
    """Return the patch of `given` that changes what differs between `old` and `new`.

    `old` is the typed form of `given`, and `new` what became of it.
    """
    return list(_operations("", given, _merged(given, old, new)))


def _merged(given: Any, old: Any, new: Any) -> Any:  # noqa: ANN401 - any JSON
    if new == old:
        return given
    if isinstance(given, dict) and isinstance(new, dict):
        old = old if isinstance(old, dict) else {}
        kept = {k: v for k, v in given.items() if k in new or k not in old}
        return kept | {
            key: _merged(given[key], old.get(key), each) if key in given else each
            for key, each in new.items()
        }
    lists = isinstance(given, list) and isinstance(old, list) and isinstance(new, list)
    if lists and len(given) == len(old):
        return _merged_items(given, old, new)
    return new


def _merged_items(given: list[Any], old: list[Any], new: list[Any]) -> list[Any]:
    """Return a new list, with the given form of each item that was in the old one.

    That is an equal item, else one of the same name, else the one at its place if no
    item was added or removed.
    """
    unused = dict(enumerate(old))
    source: dict[int, int] = {}
    for is_same in (operator.eq, _have_one_name):
        for place, item in enumerate(new):
            found = [n for n in unused if is_same(unused[n], item)]
            if found and place not in source:
                source[place] = place if place in found else found[0]
                del unused[source[place]]
    if len(old) == len(new):
        source |= {place: place for place in unused if place not in source}
    return [
        _merged(given[source[place]], old[source[place]], item)
        if place in source
        else item
        for place, item in enumerate(new)
    ]


def _have_one_name(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON
    both = isinstance(one, dict) and isinstance(other, dict)
    return both and "name" in one and one["name"] == other.get("name")


def _operations(path: str, before: Any, after: Any) -> Iterator[JSON]:  # noqa: ANN401
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in after:
                yield {"op": "remove", "path": place}
            elif key not in before:
                yield {"op": "add", "path": place, "value": after[key]}
            else:
                yield from _operations(place, before[key], after[key])
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and (len(before) == len(after))
    ):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _operations(f"{path}/{number}", *pair)
    else:
        yield {"op": "replace", "path": path, "value": after}
