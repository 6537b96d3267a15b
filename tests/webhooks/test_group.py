"""The part of the manager that serves webhooks and keeps them registered."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import NAMESPACES
from controller_manager.devcluster.cluster import embedded_config
from controller_manager.manager.runnable import Lifetime
from controller_manager.manager.webhooks import WebhookGroup
from controller_manager.observability.logs import silent_logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.sdk import Descriptor, NotFound
from controller_manager.serving.certificates import ServingError
from controller_manager.serving.connection import bind
from controller_manager.testing import VirtualManager
from tests.ports import free_port
from tests.webhooks.hooks import BUILD, CONTROLLER
from tests.webhooks.test_registration import MUTATING, VALIDATING


@pytest.fixture
def own_controllers() -> Sequence[Descriptor]:
    return (CONTROLLER,)


def group(manager: VirtualManager, port: int) -> WebhookGroup:
    more = {
        "webhook-port": str(port),
        "leader-elect-resource-namespace": "web",
        "bind-address": "127.0.0.1",
    }
    clients: Any = SimpleNamespace(
        manager=lambda: manager.client, controller=lambda *_: manager.client
    )
    return WebhookGroup(
        BUILD,
        embedded_config(BUILD, 0, more=more),
        clients,
        clock=manager.clock,
        metrics=Collectors(CollectorRegistry(), "", ""),
        logger=silent_logger(),
    )


@asynccontextmanager
async def running(made: WebhookGroup) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        await made.run(Lifetime(tasks, asyncio.Event()))
        try:
            yield
        finally:
            await made.stop()


async def test_it_is_ready_once_the_webhooks_are_registered_and_stays_so(
    manager: VirtualManager,
) -> None:
    """One registration that is refused later must not end the others."""
    made = group(manager, free_port())
    check = made.ready()["webhooks"]
    assert check() == "the secret has not been read yet"
    async with running(made):
        await asyncio.sleep(5)
        assert 'namespaces "web" not found' in (check() or "")
        with pytest.raises(NotFound):
            await manager.client.get_json(*VALIDATING)
        await manager.client.apply(NAMESPACES, {"metadata": {"name": "web"}})
        await asyncio.sleep(5)
        assert check() is None
        before: Any = await manager.client.get_json(*MUTATING)
        await manager.client.delete(*MUTATING)
        await asyncio.sleep(15)
        after: Any = await manager.client.get_json(*MUTATING)
        assert after["webhooks"] == before["webhooks"]

        async def write(*_: object) -> list[str]:
            return ["refused"]

        registration: Any = SimpleNamespace(read=write, write=write)
        made._registration = registration
        await asyncio.sleep(15)
        assert (made._problem, check()) == ("refused", None)


async def test_a_port_in_use_is_told(manager: VirtualManager) -> None:
    with bind("127.0.0.1", 0) as taken:
        made = group(manager, taken.getsockname()[1])
        with pytest.raises(ExceptionGroup) as failed:
            async with running(made):
                pass
    (error,) = failed.value.exceptions
    assert isinstance(error, ServingError)
    assert "the port is in use; choose another --webhook-port" in str(error)
