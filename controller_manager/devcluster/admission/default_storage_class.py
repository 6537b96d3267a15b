"""The admission plugin DefaultStorageClass."""

from typing import ClassVar

from controller_manager.devcluster.kinds.storage.default_class import set_default_class
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage.storage import Storage

from .writes import CLAIMS, object_of


class DefaultStorageClass(Plugin):
    """Gives the default class to a claim that names no class."""

    name: ClassVar = "DefaultStorageClass"
    targets: ClassVar = CLAIMS
    covers_own_writes: ClassVar = True
    mutates: ClassVar = frozenset((Operation.CREATE,))

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def mutate(self, write: Write) -> None:
        """Fill in the class."""
        set_default_class(object_of(write), self._storage)
