"""Writes the changes of a cluster to its data file, in the background."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from controller_manager.clock import Clock
from controller_manager.devcluster.server.storage.storage import Change, Storage, Stored
from controller_manager.observability.logs import Logger

from .data_error import NotSavedError
from .data_file import RESERVE, Batch, DataFile, Place

_DELAY: Final = 0.01
"""Seconds in which changes are collected for one batch."""

_RETRY: Final = 1.0
"""Seconds after which a failed batch is written again."""


class Saving:
    """Keeps the data file of a cluster up to date.

    The changes of one request, and their immediate consequences, are in one
    transaction. If an object changes several times, only the last state is written. The
    event loop never waits: a thread writes.

    While the file cannot be written, the API server refuses requests that write: it
    confirms no change that it cannot save. Changes that it has accepted before stay in
    memory, and the thread tries to write them again each second.
    """

    def __init__(
        self, file: DataFile, storage: Storage, clock: Clock, logger: Logger
    ) -> None:
        """Take the file, whose state is in the storage already, and test a write.

        Raises NotSavedError if the file cannot be written.
        """
        self._file = file
        self._storage = storage
        self._clock = clock
        self._logger = logger
        self._objects: dict[Place, Stored | None] = {}
        self._ceiling = 0
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="devcluster-data")
        file.write(self._batch())
        storage.journal = self._record

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_DELAY)
            self._changed.clear()
            await self._save()

    async def close(self) -> None:
        """Write all unwritten changes, and close the file.

        :meth:`run` must have ended. Raises NotSavedError.
        """
        self._storage.journal = None
        try:
            # The close waits for the write of the thread.
            await self._in_thread(self._batch(is_final=True))
        finally:
            self._thread.shutdown()
            self._file.close()

    async def saved(self) -> None:
        """Write all changes so far; raises NotSavedError."""
        await self._in_thread(self._batch())

    def _record(self, resource: str, change: Change) -> None:
        gone = change.type == "DELETED"
        self._objects[resource, *change.key] = None if gone else change.after
        self._changed.set()

    def _batch(self, *, is_final: bool = False) -> Batch:
        """Return and clear all waiting changes."""
        version = self._storage.version
        if version > self._ceiling - RESERVE // 2:
            self._ceiling = version + RESERVE
        batch = Batch(
            version,
            self._ceiling,
            self._objects,
            dict(self._storage.last_numbers),
            is_final,
            self._clock.now(),
        )
        self._objects = {}
        return batch

    async def _save(self) -> None:
        """Write the waiting changes; after a failure, try again later."""
        try:
            await self._in_thread(self._batch())
        except NotSavedError as error:
            if not self._storage.trouble:
                self._logger.error("Data file cannot be written", err=str(error))
            self._storage.trouble = str(error)
            self._changed.set()
            await asyncio.sleep(_RETRY)
            return
        if self._storage.trouble:
            self._storage.trouble = ""
            self._logger.info("Data file is written again")

    async def _in_thread(self, batch: Batch) -> None:
        """Write a batch; after a failure, its changes wait again."""
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(self._thread, self._file.write, batch)
        try:
            # After a cancellation, the thread continues.
            await asyncio.wait((writing,))
        finally:
            if writing.done() and writing.exception() is not None:
                self._put_back(batch)
        writing.result()

    def _put_back(self, batch: Batch) -> None:
        """Let changes wait again, unless later ones wait for the same object."""
        self._objects = {**batch.objects, **self._objects}
