"""The user of the benchmarks stands in for nodes on clusters that have none."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from controller_manager.api.json_objects import JSON
from controller_manager.client.wire.http import HTTPTransport
from tests.benchmarks.driver import Driver


def _pod(name: str) -> JSON:
    return {"metadata": {"name": name, "uid": name}}


class LaggingDriver(Driver):
    """A driver whose first watch is ended by the server, with a pod unseen."""

    def __init__(self) -> None:
        super().__init__(cast("HTTPTransport", None))
        self.listed = ["idle"]
        self.run: list[str] = []
        self.watches = 0
        self.is_watched_again = asyncio.Event()

    async def call(self, *_: Any, **__: Any) -> JSON:
        items = [_pod(each) for each in self.listed]
        return {"metadata": {"resourceVersion": "1"}, "items": items}

    async def watch(self, *_: str) -> AsyncGenerator[tuple[str, JSON], None]:
        self.watches += 1
        if self.watches == 1:
            yield "ADDED", _pod("seen")
            self.listed += ["seen", "missed"]
            return
        yield "ADDED", _pod("late")
        self.is_watched_again.set()
        await asyncio.Event().wait()

    async def _run_pod(self, pod: JSON) -> None:
        self.run.append(pod["metadata"]["name"])


async def test_new_pods_run_although_the_server_ends_the_watch() -> None:
    """Each runs once; a pod that was idle before stays idle."""
    driver = LaggingDriver()
    nodes = asyncio.create_task(driver.simulate_nodes())
    await driver.is_watched_again.wait()
    nodes.cancel()
    await asyncio.gather(nodes, return_exceptions=True)
    assert driver.run == ["seen", "missed", "late"]
