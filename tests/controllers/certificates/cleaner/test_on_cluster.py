"""Old requests are deleted on a cluster in memory."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from controller_manager.api.certificates.v1 import (
    SIGNING_REQUESTS,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import format_time
from controller_manager.controllers.certificates.cleaner.controller import expires_at
from tests.controllers.certificates.authorities import certificate_for, signing_request
from tests.controllers.certificates.clusters import (
    CLEANER,
    SIGNING,
    config_for,
    decide,
    make,
)
from tests.controllers.hands import Hands
from tests.controllers.rows import rows

HOUR = timedelta(hours=1)
BOTH = ("client auth", "digital signature")


def _spec(duration: int | None) -> dict[str, Any]:
    return {} if duration is None else {"expirationSeconds": duration}


async def _deleted_after(cluster: Hands, since: datetime) -> timedelta:
    """Return the time until the one request is gone, to the next ten seconds."""
    async with asyncio.timeout((48 * HOUR).total_seconds()):
        while True:
            page = await cluster.client.list_page(SIGNING_REQUESTS)
            if not page.items:
                return cluster.clock.now() - since
            await asyncio.sleep(10)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("decision", "usages", "duration", "stays"),
    [
        pytest.param("", BOTH, None, 24 * HOUR, marks=pytest.mark.slow),
        ("Denied", BOTH, None, HOUR),
        ("Approved", BOTH, None, HOUR),
        ("Approved", ("client auth",), None, HOUR),
        ("Approved", BOTH, 600, HOUR / 6),
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
    cluster = Hands(rbac=True)
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


@pytest.mark.looptime
@pytest.mark.slow
async def test_an_approved_request_goes_a_day_later(tmp_path: Path) -> None:
    cluster = Hands(rbac=True)
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


@pytest.mark.looptime
async def test_an_old_request_goes_at_the_start(cluster: Hands, tmp_path: Path) -> None:
    """Upstream sees nothing at its start, and looks again an hour later."""
    make(cluster, signing_request())
    await asyncio.sleep(timedelta(hours=25).total_seconds())
    async with cluster.manager(config_for(tmp_path, (CLEANER,))) as recording:
        await asyncio.sleep(1)
    assert [each.method for each in recording.writes if "certif" in each.path] == [
        "DELETE"
    ]


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_KEY = ec.generate_private_key(ec.SECP256R1())


def ends(when: datetime) -> str:
    """Return a certificate that ends then, as it stands in a status."""
    pem = certificate_for(_KEY, ends=when).public_bytes(Encoding.PEM)
    return base64.b64encode(pem).decode()


VALID = ends(NOW + timedelta(days=30))
EXPIRED = ends(NOW - timedelta(minutes=1))
GARBAGE = base64.b64encode(b"garbage").decode()


def _ago(minutes: float) -> str:
    return format_time(NOW - timedelta(minutes=minutes))


@rows(
    "minutes certificate conditions goes",
    {
        "issued": (1, VALID, {"Approved": 50}, False),
        "issued long ago": (1, VALID, {"Approved": 61}, True),
        "approved": (1, None, {"Approved": 50}, False),
        "approved today": (9999, None, {"Approved": 23 * 60}, False),
        "approved long ago": (1, None, {"Approved": 24 * 60 + 1}, True),
        "empty certificate": (1, "", {"Approved": 24 * 60 + 1}, True),
        "approved, then denied": (1, None, {"Approved": 9999, "Denied": 1}, True),
        "expired": (1, EXPIRED, {"Approved": 50}, True),
        "expired, but approved by nobody": (1, EXPIRED, {}, False),
        "garbage": (1, GARBAGE, {"Approved": 50}, False),
        "garbage long ago": (1, GARBAGE, {"Approved": 61}, True),
        "no base64": (1, "?", {"Approved": 50}, False),
        "denied": (1, None, {"Denied": 50}, False),
        "denied long ago": (1, None, {"Denied": 61}, True),
        "failed": (1, None, {"Failed": 50}, False),
        "failed late": (1, None, {"Approved": 90, "Failed": 50}, False),
        "failed early": (1, None, {"Approved": 90, "Failed": 61}, True),
        "pending": (5 * 60, None, {}, False),
        "pending for a day": (24 * 60 + 1, None, {}, True),
        "another condition": (9999, None, {"Other": 9999}, False),
    },
)
def test_a_request_is_deleted_when_upstream_deletes_it(
    minutes: float, certificate: str | None, conditions: dict[str, float], *, goes: bool
) -> None:
    request = CertificateSigningRequest(
        metadata=ObjectMeta(name="a", creation_timestamp=_ago(minutes)),
        status=CertificateSigningRequestStatus(
            certificate=certificate,
            conditions=tuple(
                CertificateSigningRequestCondition(
                    type=kind, status="True", last_update_time=_ago(since)
                )
                for kind, since in conditions.items()
            ),
        ),
    )
    when = expires_at(request)
    assert (when is not None and when <= NOW) is goes
