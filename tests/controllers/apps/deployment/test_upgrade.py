"""An API server that adds new defaults after an upgrade causes no new replica sets."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import pytest

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
)
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from tests.clusters import Cluster
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


@dataclass
class Upgrading:
    """A transport to an API server that adds a new default once it is upgraded."""

    inner: Transport
    host: str = "test"
    is_upgraded: bool = False
    reads: list[str] = field(default_factory=list)

    def _shown(self, body: bytes) -> bytes:
        if not self.is_upgraded:
            return body
        return body.replace(b'"image":"app:', b'"newDefault":true,"image":"app:')

    async def request(self, request: Request) -> Response:
        if request.method == "GET":
            self.reads.append(request.path)
        answer = await self.inner.request(request)
        return replace(answer, body=self._shown(answer.body))

    async def stream(self, request: Request) -> Stream:
        return _Shown(await self.inner.stream(request), self._shown)

    async def close(self) -> None:
        pass


@dataclass
class _Shown:
    inner: Stream
    shown: Callable[[bytes], bytes]

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.inner.chunks()) as chunks:
            async for chunk in chunks:
                yield self.shown(chunk)

    async def close(self) -> None:
        await self.inner.close()


async def test_a_replica_set_that_shows_a_new_default_is_the_deployments_own(
    cluster: Cluster, user: User
) -> None:
    """The cached deployment lacks the default then."""
    transport = Upgrading(cluster.transport)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.is_upgraded = True
        (name,) = [each.metadata.name for each in (await user.replica_sets()).values()]
        annotation = {"metadata": {"annotations": {"note": "1"}}}
        await user.patch(REPLICASETS, name, annotation)
        await settle()
        assert len(await user.replica_sets()) == 1
        assert (await user.deployment()).status.collision_count is None


async def test_a_default_that_is_new_to_the_api_server_makes_no_new_replica_set(
    cluster: Cluster, user: User
) -> None:
    """``kubectl annotate`` after its upgrade shows the deployment anew, and no other.

    The cached replica set lacks the default, though the stored one has it, too.
    """
    transport = Upgrading(cluster.transport)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.is_upgraded = True
        transport.reads.clear()
        annotation = {"metadata": {"annotations": {"note": "1"}}}
        await user.patch(DEPLOYMENTS, "web", annotation)
        await settle()
        assert len(await user.replica_sets()) == 1
        assert len([path for path in transport.reads if "replicasets/" in path]) == 1
        await user.set_image("app:v2")
        await settle()
        assert len(await user.replica_sets()) == 2
        deployed = await user.deployment()
        assert deployed.status.updated_replicas == deployed.status.replicas == 3


async def test_a_template_that_gains_a_field_makes_a_new_replica_set(
    cluster: Cluster, user: User
) -> None:
    """After one read of fresh objects, which differ, too."""
    transport = Upgrading(cluster.transport)
    async with cluster.nodes(), cluster.manager(transport=transport):
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        transport.reads.clear()
        spec = {"template": {"spec": {"priorityClassName": "high"}}}
        await user.patch(DEPLOYMENTS, "web", {"spec": spec})
        await settle()
        assert len(await user.replica_sets()) == 2
        assert len(transport.reads) == 2  # the deployment and its replica set
