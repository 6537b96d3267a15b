"""Writes the state of a cluster to its data file, in the background."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from controller_manager.clock import Clock
from controller_manager.devcluster.storage import Storage, state_of
from controller_manager.observability.logs import Logger

from .data_file import DataFile
from .snapshot import DataError

_PERIOD: Final = 1.0
"""Seconds between two writes of a small cluster."""

_SHARE: Final = 10
"""A large cluster waits so many times as long as its last write took."""


class Saving:
    """Keeps the data file of a cluster up to date.

    It writes the whole state each second if it has changed, and at the end. The event
    loop never waits: a thread writes.

    While the file cannot be written, the API server refuses requests that write.
    Changes that it has accepted before stay in memory, and are in the next write.
    """

    def __init__(
        self, file: DataFile, storage: Storage, clock: Clock, logger: Logger
    ) -> None:
        """Take the file, whose state is in the storage already, and write once.

        Later clusters then know that this one has begun. Raises DataError if the file
        cannot be written.
        """
        self._file = file
        self._storage = storage
        self._clock = clock
        self._logger = logger
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="devcluster-data")
        self._pause = _PERIOD
        storage.is_kept = True
        file.write(state_of(storage), clock.now())
        self._saved = storage.version

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            if self._saved == self._storage.version:
                continue
            try:
                await self.save()
            except DataError as error:
                if not self._storage.trouble:
                    self._logger.error("Data file cannot be written", err=str(error))
                self._storage.trouble = str(error)
            else:
                if self._storage.trouble:
                    self._storage.trouble = ""
                    self._logger.info("Data file is written again")

    async def save(self, *, is_final: bool = False) -> None:
        """Write the present state; raises DataError."""
        state, now = state_of(self._storage), self._clock.now()
        loop = asyncio.get_running_loop()
        began = loop.time()  # which may be fast, as the pause
        await loop.run_in_executor(
            self._thread, lambda: self._file.write(state, now, is_final=is_final)
        )
        self._saved = state.version
        self._pause = max(_PERIOD, _SHARE * (loop.time() - began))

    async def close(self) -> None:
        """Write the last state, and close the file.

        :meth:`run` must have ended. Raises DataError.
        """
        try:
            # The thread ends an earlier write first.
            await self.save(is_final=True)
        finally:
            self._thread.shutdown()
            self._file.close()
