"""Each warning of an API server is logged once."""

import io

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import WarningHeaders
from controller_manager.client.rest.transport import Request, Response
from controller_manager.observability.logs import make_logger
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


async def test_a_warning_is_logged_once(cluster: Cluster) -> None:
    """Several in one header, with quotes in them; other codes are none."""
    header = '299 - "v1 is \\"old\\"", 299 - "unknown field", 199 - "misc"'

    async def warn(_: Request) -> Response:
        return Response(200, {"warning": header}, b"{}")

    cluster.server.handle = warn  # type: ignore[method-assign, assignment]
    log = io.StringIO()
    client = Client(
        cluster.transport,
        cluster.clock,
        warnings=WarningHeaders(make_logger(stream=log)),
    )
    for _ in range(3):
        await client.get(PODS, "default", "a")
    lines = [line.partition("] ")[2] for line in log.getvalue().splitlines()]
    assert lines == [
        '"The API server warns" warning="v1 is \\"old\\""',
        '"The API server warns" warning="unknown field"',
    ]
