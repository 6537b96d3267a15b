"""All informers of the daemon, each resource watched once."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from controller_manager.api.meta import KubeObject
from controller_manager.api.resources import PODS, AnyResource, Resource
from controller_manager.client.client import Client
from controller_manager.informers.informer import SharedInformer
from controller_manager.informers.sharing import PodSharing
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics import InformerCollectors

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class InformerFactory:
    """Hands out the one informer of a resource, and starts what was asked for."""

    def __init__(
        self,
        client: Client,
        *,
        min_resync_period: float,
        stream_lists: bool = True,
        rng: random.Random,
        logger: Logger,
        metrics: InformerCollectors,
    ) -> None:
        """Take the client; each informer resyncs after 1 to 2 minimum periods.

        `stream_lists` asks watches for the initial list (gate WatchListClient).
        """
        self._stream_lists = stream_lists
        self._client = client
        self._metrics = metrics
        self._min_resync_period = min_resync_period
        self._rng = rng
        self._logger = logger
        self._informers: dict[str, SharedInformer[Any]] = {}
        self._started: set[str] = set()

    def informer(self, resource: Resource[ObjectT]) -> SharedInformer[ObjectT]:
        """Return the informer of `resource`, the same for everyone."""
        key = f"{resource.api_version}/{resource.plural}"
        if key not in self._informers:
            self._informers[key] = SharedInformer(
                self._client,
                resource,
                stream_lists=self._stream_lists,
                resync_period=self._min_resync_period * (1 + self._rng.random()),
                rng=self._rng,
                logger=self._logger,
                metrics=self._metrics.informer(
                    resource.group, resource.version, resource.plural
                ),
                **self._compacting(resource),
            )
        return cast("SharedInformer[ObjectT]", self._informers[key])

    def _compacting(self, resource: AnyResource) -> dict[str, Any]:
        """Return how to make a resource's objects smaller, if there is a way."""
        return {"compact": PodSharing()} if resource is PODS else {}

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run in `group` every informer that does not run yet; return the tasks."""
        new = [key for key in self._informers if key not in self._started]
        self._started.update(new)
        return [
            group.create_task(self._informers[key].run(), name=f"informer-{key}")
            for key in new
        ]

    async def wait_for_sync(self) -> None:
        """Wait until every informer that was asked for is synced."""
        for informer in list(self._informers.values()):
            await informer.wait_for_sync()

    def all(self) -> list[SharedInformer[Any]]:
        """Return every informer that was asked for."""
        return list(self._informers.values())

    def synced(self) -> dict[str, bool]:
        """Return of each resource whether it is synced."""
        return {
            informer.resource.group_resource: informer.is_synced
            for informer in self._informers.values()
        }

    def health_problem(self, resources: Iterable[AnyResource]) -> str | None:
        """Return what is wrong with the informers of `resources`."""
        problems = (self.informer(each).health_problem() for each in resources)
        return next((problem for problem in problems if problem), None)
