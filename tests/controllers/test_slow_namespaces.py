"""A slow webhook of one namespace stops no controller in another."""

import asyncio

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.client.builder import IN_FLIGHT
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.options.config import ClientConfig
from tests.clusters import Cluster, make_config
from tests.controllers.builders import replica_set_json
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


class SlowWebhook:
    """Delays the creations of pods in a namespace by ten seconds."""

    host = "test"

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._inner = cluster.transport
        self._path = f"/namespaces/{namespace}/pods"
        self.in_flight = self.most = 0

    async def request(self, request: Request) -> Response:
        if request.method == "POST" and request.path.endswith(self._path):
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            await asyncio.sleep(10)
            self.in_flight -= 1
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def close(self) -> None:
        pass


async def test_replica_sets_elsewhere_get_their_pods(cluster: Cluster) -> None:
    """Ten replica sets of 50 pods keep all five workers of upstream for minutes."""
    user, webhook = User(cluster), SlowWebhook(cluster, "slow")
    for name in ("slow", "other"):
        cluster.add_namespace(name)
    config = make_config(controllers=("replicaset-controller",))
    # The rate limit is upstream's default.
    config = type(config)(
        client=ClientConfig(), generic=config.generic, serving=config.serving
    )
    async with cluster.manager(config, webhook):
        for number in range(10):
            await user.create(REPLICASETS, _in("slow", f"rs{number}", 50))
        await settle(15)
        for number in range(3):
            await user.create(REPLICASETS, _in("other", f"rs{number}", 3))
        await settle(4)
        pods = (await user.client.list_page(PODS)).items
        assert [each.metadata.namespace for each in pods].count("other") == 9
        await settle(600)
        pods = (await user.client.list_page(PODS)).items
        assert [each.metadata.namespace for each in pods].count("slow") == 500
    assert webhook.most <= IN_FLIGHT


def _in(namespace: str, name: str, replicas: int) -> dict[str, object]:
    body = replica_set_json(name, replicas)
    return body | {"metadata": {"name": name, "namespace": namespace}}
