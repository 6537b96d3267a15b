"""Each controller as its own service account, confined to its own role."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import NAMESPACES, PODS, SERVICE_ACCOUNTS
from controller_manager.client.identity.service_accounts import (
    ServiceAccountToken,
    ServiceAccountTransport,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import Forbidden, TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.observability.logs import silent_logger
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


class Confined(Cluster):
    """A cluster with RBAC, and the deployment controller's way to it."""

    def __init__(self) -> None:
        super().__init__(rbac=True)
        self.server.tokens.add("manager", User(MANAGER))
        self.requests: list[str] = []
        handle = self.server.handle

        async def noted(request: Request) -> Any:
            self.requests.append(f"{request.method} {request.path}")
            return await handle(request)

        self.server.handle = noted  # type: ignore[method-assign]
        manager = Client(InMemoryTransport(self.server, "manager"), self.clock)
        self.token = ServiceAccountToken(
            manager, "deployment-controller", clock=self.clock, logger=silent_logger()
        )
        anonymous = InMemoryTransport(self.server)
        self.transport_of_account = ServiceAccountTransport(anonymous, self.token)
        self.account = Client(self.transport_of_account, self.clock)

    def token_requests(self) -> int:
        return sum(each.endswith("/token") for each in self.requests)


@pytest_asyncio.fixture
async def confined() -> Confined:
    return Confined()


async def test_the_account_is_created_where_it_is_missing(confined: Confined) -> None:
    await asyncio.gather(*(confined.account.list_page(DEPLOYMENTS) for _ in range(5)))
    names = [
        account.metadata.name
        for account in (await confined.client.list_page(SERVICE_ACCOUNTS)).items
    ]
    assert names == ["deployment-controller"]
    assert confined.token_requests() == 2  # the first found no account


async def test_a_namespace_that_is_missing_is_created(confined: Confined) -> None:
    admin = ServiceAccountToken(
        confined.client,
        "a",
        clock=confined.clock,
        logger=silent_logger(),
        namespace="elsewhere",
    )
    assert await admin.get()
    assert (await confined.client.get(NAMESPACES, "", "elsewhere")).metadata.uid


async def test_an_account_can_do_what_its_role_allows(confined: Confined) -> None:
    await confined.account.list_page(DEPLOYMENTS)
    with pytest.raises(Forbidden) as caught:
        await confined.account.create_json(PODS, "default", b'{"metadata":{}}')
    assert str(caught.value) == (
        "pods is forbidden: User "
        '"system:serviceaccount:kube-system:deployment-controller" cannot create '
        'resource "pods" in API group "" in the namespace "default"'
    )


async def test_a_token_is_renewed_before_it_ends(confined: Confined) -> None:
    first = await confined.token.get()
    await asyncio.sleep(2870)
    assert await confined.token.get() == first
    await asyncio.sleep(20)
    assert await confined.token.get() == first
    await asyncio.sleep(0.1)
    second = await confined.token.get()
    assert second != first
    await asyncio.sleep(3700)
    await confined.account.list_page(DEPLOYMENTS)
    await confined.transport_of_account.close()


async def test_a_token_that_is_refused_is_replaced_once(confined: Confined) -> None:
    await confined.account.list_page(DEPLOYMENTS)
    confined.server.tokens.revoke(
        "system:serviceaccount:kube-system:deployment-controller"
    )
    before = confined.token_requests()
    await confined.account.list_page(DEPLOYMENTS)
    assert confined.token_requests() == before + 1


async def test_while_renewal_fails_the_old_token_is_used(confined: Confined) -> None:
    token = await confined.token.get()
    handle = confined.server.handle

    async def broken(request: Request) -> Any:
        if request.path.endswith("/token"):
            return Response(500, {}, b"no")
        return await handle(request)

    confined.server.handle = broken  # type: ignore[method-assign]
    await asyncio.sleep(3000)
    for _ in range(20):
        assert await confined.token.get() == token
        await asyncio.sleep(25)
    await asyncio.sleep(101)
    with pytest.raises(TransportError, match="no token for the service account: no"):
        await confined.account.list_page(DEPLOYMENTS)
    confined.server.handle = handle  # type: ignore[method-assign]
    await confined.account.list_page(DEPLOYMENTS)
    await confined.transport_of_account.close()
