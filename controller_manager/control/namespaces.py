"""Something that belongs into every namespace."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.core.v1 import NAMESPACES, Namespace
from controller_manager.informers.factory import ControllerInformers
from controller_manager.informers.informer import Handler
from controller_manager.workqueue.queue import WorkQueue

_ACTIVE: Final = "Active"


class ActiveNamespaces:
    """The names of namespaces, as keys; `in` tells which of them are active.

    In one that is ending nothing can be created.
    """

    def __init__(self, informers: ControllerInformers, queue: WorkQueue) -> None:
        """Watch namespaces; add the name of each that is new or has changed."""
        self._queue = queue
        self._namespaces = informers.informer(NAMESPACES)
        self._namespaces.add_handler(
            Handler(on_add=self._enqueue, on_update=lambda _, new: self._enqueue(new))
        )

    def enqueue_all(self) -> Iterator[None]:
        """Add the name of every namespace, one a step."""
        for namespace in self._namespaces.store:
            self._enqueue(namespace)
            yield

    def _enqueue(self, namespace: Namespace) -> None:
        self._queue.add(namespace.metadata.name)

    def __contains__(self, name: str) -> bool:
        """Tell whether there is such a namespace, and it is active."""
        namespace = self._namespaces.store.get(name)
        return namespace is not None and namespace.status.phase == _ACTIVE
