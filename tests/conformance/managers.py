"""The manager that a scenario is played with; the scenario may stop and start it."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from http import HTTPStatus
from typing import Self

from controller_manager.api.json_objects import JSON
from tests.clusters import RecordingTransport, Write


class SwitchedManager:
    """A manager that runs while entered, except between `stop` and `start`."""

    def __init__(
        self, run: Callable[[], AbstractAsyncContextManager[RecordingTransport]]
    ) -> None:
        """Take what runs a manager while entered, and yields its writes."""
        self._run = run
        self._running = AsyncExitStack()
        self._recorded: list[RecordingTransport] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the manager; its caches are synced when this returns."""
        recorded = await self._running.enter_async_context(self._run())
        self._recorded.append(recorded)

    async def stop(self) -> None:
        await self._running.aclose()

    @property
    def writes(self) -> list[Write]:
        distinct = {id(each): each for each in self._recorded}
        return [write for each in distinct.values() for write in each.writes]

    def created(self) -> list[JSON]:
        """Return the objects that it has created, as the server answered."""
        answers = (
            json.loads(each.answer)
            for each in self.writes
            if (each.method, each.status) == ("POST", HTTPStatus.CREATED)
        )
        return [each for each in answers if each.get("metadata", {}).get("name")]
