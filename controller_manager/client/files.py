"""Open files, of which a process has only so many."""

import errno
import os
from collections.abc import Callable
from typing import Final, TypeVar

OpenedT = TypeVar("OpenedT")

_NO_FILE_LEFT: Final = (errno.EMFILE, errno.ENFILE)


class FileReserve:
    """Keeps some open files back, for what must be opened when no file is left.

    Watches of hundreds of resources, or peers of the HTTPS server, may use up all
    files that this process may have open. The lease must be renewed all the same.
    """

    def __init__(self, size: int) -> None:
        """Open `size` files at once, or as many as can be had."""
        self._size = size
        self._files: list[int] = []
        self.refill()

    def __len__(self) -> int:
        """Return how many files are kept back."""
        return len(self._files)

    def refill(self) -> None:
        """Take back what was used, as far as there are files again."""
        while len(self._files) < self._size:
            try:
                self._files.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if error.errno not in _NO_FILE_LEFT:
                    raise
                return

    def opened(self, opener: Callable[[], OpenedT]) -> OpenedT:
        """Return what `opener` opens, by a file of the reserve if none is left.

        Raises OSError if the reserve is used up, too.
        """
        try:
            return opener()
        except OSError as error:
            if error.errno not in _NO_FILE_LEFT or not self._files:
                raise
        # Nothing else runs in this thread between the two calls.
        os.close(self._files.pop())
        return opener()

    def close(self) -> None:
        """Give all files back."""
        while self._files:
            os.close(self._files.pop())
