"""A cache that has the controller's own writes before the watch shows them.

A binding takes four writes to two objects. Without this cache, the sync after a write
would decide on objects that are older than the write: it would send writes that the API
server refuses, or give a volume to a second claim. Upstream: storeObjectUpdate of
pv_controller_base.go.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from controller_manager.api.meta import KubeObject, key_of, resource_version_number
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.informer import SharedInformer

ObjectT = TypeVar("ObjectT", bound=KubeObject)

Observer = Callable[[str, Any], None]
"""A function that takes the key of an object and its newest version, `None` if gone."""


class _Assumed(NamedTuple):
    """An object as the API server has stored it, and the epoch of that version."""

    obj: Any
    epoch: int


class AssumeCache(Generic[ObjectT]):
    """The newest known version of each object: from the watch, or from a write.

    An object that the watch does not show is gone; the cache drops it.
    """

    def __init__(
        self, informer: SharedInformer[ObjectT], observers: tuple[Observer, ...]
    ) -> None:
        """Take the informer, and functions to call with each newest version.

        They are called before the handlers that are added later.
        """
        self._informer = informer
        self._observers = observers
        self._assumed: dict[str, _Assumed] = {}
        informer.add_handler(
            Handler(
                on_add=self._seen,
                on_update=lambda _, new: self._seen(new),
                on_delete=lambda gone: self._gone(key_of(gone)),
            )
        )

    def __len__(self) -> int:
        """Return the number of objects whose last write the watch has not shown yet."""
        return len(self._assumed)

    def get(self, key: str) -> ObjectT | None:
        """Return the newest version of an object, `None` if there is none."""
        cached = self._informer.store.get(key)
        assumed = self._assumed.get(key)
        if cached is None or assumed is None:
            return cached
        if assumed.epoch != self._informer.epoch:
            # The server's store was restored: resource versions have started again.
            del self._assumed[key]
            return cached
        found: ObjectT = assumed.obj
        return found

    def assume(self, obj: ObjectT) -> None:
        """Add an object that a write has returned."""
        key = key_of(obj)
        cached = self._informer.store.get(key)
        if cached is None or not _is_newer(obj, cached):
            return
        self._assumed[key] = _Assumed(obj, self._informer.epoch)
        self._tell(key)

    def _seen(self, obj: ObjectT) -> None:
        key = key_of(obj)
        assumed = self._assumed.get(key)
        if assumed is not None and not _is_newer(assumed.obj, obj):
            del self._assumed[key]
        self._tell(key)

    def _gone(self, key: str) -> None:
        self._assumed.pop(key, None)
        for observer in self._observers:
            observer(key, None)

    def _tell(self, key: str) -> None:
        newest = self.get(key)
        for observer in self._observers:
            observer(key, newest)


def _is_newer(one: KubeObject, other: KubeObject) -> bool:
    """Tell whether `one` is a newer version of the object `other`."""
    ours, theirs = one.metadata, other.metadata
    return ours.uid == theirs.uid and (
        resource_version_number(ours.resource_version)
        > resource_version_number(theirs.resource_version)
    )
