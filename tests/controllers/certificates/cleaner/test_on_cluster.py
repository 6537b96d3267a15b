"""Old requests are deleted on a cluster in memory."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controller_manager.api.certificates.v1 import SIGNING_REQUESTS
from tests.clusters import Cluster
from tests.controllers.certificates.authorities import signing_request
from tests.controllers.certificates.clusters import (
    CLEANER,
    SIGNING,
    config_for,
    decide,
    make,
)

pytestmark = pytest.mark.looptime

HOUR = timedelta(hours=1)


def _spec(duration: int | None) -> dict[str, Any]:
    return {} if duration is None else {"expirationSeconds": duration}


async def _deleted_after(cluster: Cluster, since: datetime) -> timedelta:
    """Return the time until the one request is gone, to the next ten seconds."""
    async with asyncio.timeout((48 * HOUR).total_seconds()):
        while True:
            page = await cluster.client.list_page(SIGNING_REQUESTS)
            if not page.items:
                return cluster.clock.now() - since
            await asyncio.sleep(10)


@pytest.mark.parametrize(
    ("decision", "usages", "duration", "stays"),
    [
        pytest.param(
            "",
            ("client auth", "digital signature"),
            None,
            24 * HOUR,
            marks=pytest.mark.slow,
        ),
        ("Denied", ("client auth", "digital signature"), None, HOUR),
        ("Approved", ("client auth", "digital signature"), None, HOUR),
        ("Approved", ("client auth",), None, HOUR),
        ("Approved", ("client auth", "digital signature"), 600, HOUR / 6),
    ],
    ids=["pending", "denied", "issued", "failed", "expired"],
)
async def test_a_request_goes_some_time_after_its_answer(
    tmp_path: Path,
    decision: str,
    usages: tuple[str, ...],
    duration: int | None,
    stays: timedelta,
) -> None:
    """By one request, and confined to its role."""
    cluster = Cluster(rbac=True)
    make(cluster, signing_request(usages=usages, **_spec(duration)))
    config = config_for(tmp_path, (CLEANER, SIGNING))
    async with cluster.confined_manager(config) as recording:
        since = cluster.clock.now()
        if decision:
            await asyncio.sleep(30)
            since = cluster.clock.now()
            await decide(cluster, "a", decision)
        took = await _deleted_after(cluster, since)
    assert stays - timedelta(seconds=1) <= took <= stays + timedelta(seconds=11)
    deletions = [each for each in recording.writes if each.method == "DELETE"]
    assert [each.status for each in deletions] == [200]


@pytest.mark.slow
async def test_an_approved_request_without_a_certificate_goes_a_day_later(
    tmp_path: Path,
) -> None:
    """The day is counted from the approval; until then its signer may come."""
    cluster = Cluster(rbac=True)
    make(cluster, signing_request())
    async with cluster.confined_manager(config_for(tmp_path, (CLEANER,))) as recording:
        await asyncio.sleep((20 * HOUR).total_seconds())
        since = cluster.clock.now()
        await decide(cluster, "a")
        took = await _deleted_after(cluster, since)
    assert timedelta(0) <= took - 24 * HOUR <= timedelta(seconds=11)
    assert [(each.method, each.status) for each in recording.writes] == [
        ("DELETE", 200)
    ]


async def test_an_old_request_goes_at_the_start(tmp_path: Path) -> None:
    """Upstream sees nothing at its start, and looks again an hour later."""
    cluster = Cluster()
    make(cluster, signing_request())
    await asyncio.sleep(timedelta(hours=25).total_seconds())
    async with cluster.manager(config_for(tmp_path, (CLEANER,))) as recording:
        await asyncio.sleep(1)
    assert [each.method for each in recording.writes if "certif" in each.path] == [
        "DELETE"
    ]
