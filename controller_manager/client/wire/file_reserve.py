"""A reserve of file descriptors, because a process may open only a limited number."""

import errno
import os
from collections.abc import Callable
from typing import Final, TypeVar

OpenedT = TypeVar("OpenedT")

_NO_FILE_LEFT: Final = (errno.EMFILE, errno.ENFILE)


class FileReserve:
    """Keeps some files open, to be closed when the process has no free descriptor.

    Watches of hundreds of resources, or peers of the HTTPS server, may use up the
    limit of open files. The lease must be renewed even then.
    """

    def __init__(self, size: int) -> None:
        """Open `size` files, or as many as the process can open."""
        self._size = size
        self._files: list[int] = []
        self.refill()

    def __len__(self) -> int:
        """Return how many files the reserve has open."""
        return len(self._files)

    def refill(self) -> None:
        """Open files again until the reserve is full or no descriptor is free."""
        while len(self._files) < self._size:
            try:
                self._files.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if error.errno not in _NO_FILE_LEFT:
                    raise
                return

    def open(self, opener: Callable[[], OpenedT]) -> OpenedT:
        """Call `opener`; if no descriptor is free, give it one of the reserve.

        Returns what `opener` returns. Raises OSError if the reserve is empty, too.
        """
        try:
            return opener()
        except OSError as error:
            if error.errno not in _NO_FILE_LEFT or not self._files:
                raise
        # No other code runs in this thread between the two calls.
        os.close(self._files.pop())
        return opener()

    def close(self) -> None:
        """Close all files of the reserve."""
        while self._files:
            os.close(self._files.pop())
