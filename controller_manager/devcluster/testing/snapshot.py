"""A state of a cluster, which a test can restore."""

from pathlib import Path
from typing import Self

from msgspec import Struct

from controller_manager.devcluster.data.snapshot import (
    DataError,
    read_snapshot,
    write_snapshot,
)
from controller_manager.devcluster.server.storage.state import StorageState

from .cluster_error import ClusterError


class Snapshot(Struct, frozen=True):
    """All objects of a cluster at one moment; it never changes."""

    state: StorageState

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Return the snapshot in a file, also one of ``devcluster snapshot``.

        Raises ClusterError.
        """
        try:
            return cls(read_snapshot(Path(path)))
        except DataError as error:
            raise ClusterError(str(error)) from None

    def write(self, path: Path | str) -> None:
        """Write a file that ``devcluster restore`` reads, too; raises ClusterError."""
        try:
            write_snapshot(Path(path), self.state)
        except DataError as error:
            raise ClusterError(str(error)) from None

    @property
    def count(self) -> int:
        """The number of objects."""
        return self.state.count
