"""Bootstrap tokens are deleted when they expire; the recordings say which."""

import asyncio
from datetime import timedelta

import pytest

from controller_manager.api.core.secrets import SECRETS, encoded
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.client import PatchType
from tests.clusters import Cluster, make_config
from tests.controllers.identity.tokencleaner.builders import (
    add_token,
    bootstrap_token,
)

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("tokencleaner",))


async def _names(cluster: Cluster) -> list[str]:
    page = await cluster.client.list_page(SECRETS)
    return sorted(
        each.metadata.name.removeprefix("bootstrap-token-") for each in page.items
    )


def _in(cluster: Cluster, seconds: float) -> str:
    return format_time(cluster.clock.now() + timedelta(seconds=seconds))


async def test_a_token_goes_when_it_expires(cluster: Cluster) -> None:
    """At once if it has expired, or if its expiration cannot be parsed."""
    add_token(cluster, bootstrap_token("never1"))
    add_token(cluster, bootstrap_token("later1", _in(cluster, 3600)))
    add_token(cluster, bootstrap_token("soon01", _in(cluster, 5)))
    add_token(cluster, bootstrap_token("past01", _in(cluster, -5)))
    add_token(cluster, bootstrap_token("odd001", "tomorrow"))
    opaque = bootstrap_token("opaque", _in(cluster, -5))
    add_token(cluster, {**opaque, "type": "Opaque"})
    add_token(cluster, bootstrap_token("mine01", _in(cluster, -5)), "default")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        assert await _names(cluster) == [
            *("later1", "mine01", "never1", "opaque", "soon01")
        ]
        await asyncio.sleep(5)
        assert await _names(cluster) == ["later1", "mine01", "never1", "opaque"]
        await cluster.client.patch(
            SECRETS,
            "kube-system",
            "bootstrap-token-later1",
            {"data": {"expiration": encoded("2020-01-01T00:00:00Z")}},
            PatchType.MERGE,
        )
        await asyncio.sleep(1)
        assert await _names(cluster) == ["mine01", "never1", "opaque"]
    assert [each.method for each in recording.writes] == ["DELETE"] * 4


async def test_a_token_that_is_prolonged_stays(cluster: Cluster) -> None:
    """Its first timer deletes nothing."""
    add_token(cluster, bootstrap_token("later1", _in(cluster, 60)))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(30)
        await cluster.client.patch(
            SECRETS,
            "kube-system",
            "bootstrap-token-later1",
            {"data": {"expiration": encoded(_in(cluster, 600))}},
            PatchType.MERGE,
        )
        await asyncio.sleep(500)
        assert await _names(cluster) == ["later1"]
        await asyncio.sleep(110)
        assert await _names(cluster) == []


async def test_no_timer_is_lost_over_a_restart(cluster: Cluster) -> None:
    """The next manager deletes at the same time."""
    add_token(cluster, bootstrap_token("soon01", _in(cluster, 20)))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(5)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(14)
        assert await _names(cluster) == ["soon01"]
        await asyncio.sleep(2)
        assert await _names(cluster) == []


async def test_its_role_in_one_namespace_is_enough() -> None:
    """A token elsewhere is none of its business."""
    cluster = Cluster(rbac=True)
    add_token(cluster, bootstrap_token("past01", _in(cluster, -5)))
    settings = make_config(
        controllers=("tokencleaner",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(settings) as recording:
        await asyncio.sleep(1)
        assert await _names(cluster) == []
    assert [each.status for each in recording.writes] == [200]


async def test_a_token_that_is_being_deleted_is_left_alone(cluster: Cluster) -> None:
    """It waits for a finalizer; another deletion would change nothing."""
    secret = bootstrap_token("past01", _in(cluster, -5))
    secret["metadata"]["finalizers"] = ["example.com/x"]
    add_token(cluster, secret)
    name = secret["metadata"]["name"]
    await cluster.client.delete(SECRETS, "kube-system", name)
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(60)
    assert recording.writes == []
    assert await _names(cluster) == ["past01"]
