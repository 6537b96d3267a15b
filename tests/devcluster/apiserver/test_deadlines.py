"""A timeout in the URL of a request must be a duration."""

import json

import pytest

from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

WRONG = "invalid timeout specified in the request URL - time: "


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("/api/v1/pods", "invalid", 'invalid duration "invalid"'),
        ("/api/v1/pods", "5", 'missing unit in duration "5"'),
        ("/api/v1/pods", "1s5", 'missing unit in duration "1s5"'),
        ("/api/v1/pods", "5d", 'unknown unit "d" in duration "5d"'),
        ("/api/v1/pods", "-", 'invalid duration "-"'),
        ("/version", "9999999999h", 'invalid duration "9999999999h"'),
    ],
)
async def test_a_wrong_timeout_is_refused(
    cluster: Cluster, path: str, value: str, message: str
) -> None:
    answer = await call(cluster, "GET", f"{path}?timeout={value}")
    assert (answer.status, json.loads(answer.body)) == (
        400,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": WRONG + message,
            "reason": "BadRequest",
            "code": 400,
        },
    )


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/pods?timeout=", 200),
        ("/api/v1/pods?timeout=1m30s", 200),
        ("/api/v1/pods?timeout=24h", 200),
        ("/api/v1/namespaces/default/pods/p/log?timeout=invalid", 404),
    ],
)
async def test_a_timeout_changes_no_answer(
    cluster: Cluster, path: str, status: int
) -> None:
    """A request that lasts as long as its client wants may have any."""
    assert (await call(cluster, "GET", path)).status == status
