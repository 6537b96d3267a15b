"""The objects of a resource in the order in which lists show them."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

Key = tuple[str, str]
ValueT = TypeVar("ValueT")

_AFTER_SLASH: Final = chr(ord("/") + 1)


def path_of(key: Key) -> str:
    """Return the sort key of lists: ``namespace/name``, as in the keys of etcd."""
    return "/".join(key)


class OrderedKeys:
    """The sorted paths of the present objects of a resource."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._paths = sorted(map(path_of, keys))

    @property
    def paths(self) -> list[str]:
        """The paths; the next added or removed object changes this list."""
        return self._paths

    def add(self, key: Key) -> None:
        """Add the key of a new object."""
        insort(self._paths, path_of(key))

    def remove(self, key: Key) -> None:
        """Remove the key of an object that is gone."""
        del self._paths[bisect_left(self._paths, path_of(key))]

    def copy(self) -> "OrderedKeys":
        """Return a copy of the present keys."""
        copied = OrderedKeys(())
        copied._paths = list(self._paths)
        return copied


class OrderedObjects(Generic[ValueT]):
    """The objects of a resource at one version, in the order of their paths.

    Use it before the storage changes: for the present version, it is a view.
    """

    def __init__(self, paths: list[str], objects: Mapping[Key, ValueT]) -> None:
        """Take the sorted paths, and the objects; some objects may have no path."""
        self._paths = paths
        self._objects = objects

    def range_of(self, namespace: str, after: str = "") -> range:
        """Return the positions of the objects of a namespace (of all, if it is empty).

        Objects up to the path `after` are left out.
        """
        begin, end = 0, len(self._paths)
        if namespace:
            begin = bisect_left(self._paths, f"{namespace}/")
            end = bisect_left(self._paths, f"{namespace}{_AFTER_SLASH}")
        if after:
            begin = max(begin, bisect_right(self._paths, after))
        return range(begin, max(begin, end))

    def at(self, places: Iterable[int]) -> Iterator[tuple[Key, ValueT]]:
        """Yield the objects at these positions, with their keys."""
        for place in places:
            namespace, _, name = self._paths[place].partition("/")
            key = (namespace, name)
            yield key, self._objects[key]
