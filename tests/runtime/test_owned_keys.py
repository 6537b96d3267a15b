"""A process writes only for keys that it owns."""

import asyncio
import io
import math
from dataclasses import dataclass, field

import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS, ConfigMap
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.leadership.fencing import FencedTransport, NotLeading
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotSent, may_be_applied
from controller_manager.client.rest.limits import SYNC_KEY
from controller_manager.observability.logs import make_logger
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import Cluster, RecordingTransport
from tests.runtime.test_worker import workers_of

pytestmark = pytest.mark.looptime

MINE, ANOTHERS = "default/mine", "default/anothers"


@dataclass
class SomeKeys:
    """An ownership of a set of keys, as a process with one shard has."""

    owned: set[str]

    def seconds_left(self, key: str) -> float:
        return math.inf if key in self.owned else 0.0


@dataclass
class Creator:
    """Creates the config map of each key, as a controller would, behind a fence."""

    cluster: Cluster
    ownership: SomeKeys
    log: io.StringIO = field(default_factory=io.StringIO)
    failures: list[tuple[str, Exception]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recording = RecordingTransport(self.cluster.transport)
        fenced = FencedTransport(self.recording, self.ownership)
        self.client = Client(fenced, self.cluster.clock)
        self.queue = WorkQueue(self.cluster.clock)
        logger = make_logger(stream=self.log)
        self.workers = workers_of(self.queue, self.reconcile, logger=logger)

    async def reconcile(self, key: str) -> Outcome:
        token = SYNC_KEY.set(key)
        try:
            await self._create(key)
        except NotSent as error:
            self.failures.append((key, error))
            raise
        finally:
            SYNC_KEY.reset(token)
        return DONE

    async def _create(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        metadata = ObjectMeta(name=name, namespace=namespace)
        await self.client.create(CONFIG_MAPS, ConfigMap(metadata=metadata))

    async def created(self) -> list[str]:
        page = await self.cluster.client.list_page(CONFIG_MAPS, "default")
        return sorted(f"default/{each.metadata.name}" for each in page.items)


async def test_only_owned_keys_are_written(cluster: Cluster) -> None:
    """A write for another key is refused before it is sent, as without the lease."""
    creator = Creator(cluster, SomeKeys({MINE}))
    running = asyncio.create_task(creator.workers.run())
    for key in (MINE, ANOTHERS):
        creator.queue.add(key)
    await asyncio.sleep(1)
    assert await creator.created() == [MINE]
    assert [each.path for each in creator.recording.writes] == [
        "/api/v1/namespaces/default/configmaps"
    ]
    assert {key for key, _ in creator.failures} == {ANOTHERS}
    for _, error in creator.failures:
        assert isinstance(error, NotLeading)
        assert not may_be_applied(error)
        assert str(error) == (
            "POST /api/v1/namespaces/default/configmaps: not sent, this process does "
            "not lead"
        )
    creator.workers.stop()
    await running


async def test_a_key_is_synced_again_once_it_is_owned(cluster: Cluster) -> None:
    """Its failures are retried, so no key is lost by a sync that comes too early."""
    creator = Creator(cluster, SomeKeys(set()))
    running = asyncio.create_task(creator.workers.run())
    for key in (MINE, ANOTHERS):
        creator.queue.add(key)
    await asyncio.sleep(1)
    assert await creator.created() == []
    creator.ownership.owned.add(ANOTHERS)
    await asyncio.sleep(2)
    assert await creator.created() == [ANOTHERS]
    creator.ownership.owned.add(MINE)
    await asyncio.sleep(4)
    assert await creator.created() == [ANOTHERS, MINE]
    assert creator.queue.failures(MINE) == 0
    creator.workers.stop()
    await running
