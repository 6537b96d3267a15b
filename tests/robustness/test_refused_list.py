"""A resource that the daemon may not list."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.robustness.cluster import Fault, FaultyCluster, faulty_cluster, refusal
from tests.robustness.daemon import Daemon, run_daemon
from tests.robustness.objects import deployments, end_a_job, workload
from tests.robustness.situation import on_uvloop, seconds_until

pytestmark = pytest.mark.slow

PATIENCE = 15.0
BUSY = "the main event loop has not answered yet"
RESTART = 60.0
"""Seconds until a refused list must be tried again."""


def refused(plural: str, group: str = "") -> Fault:
    """Return a fault: a role without list and watch of one resource."""

    async def fault(request: web.BaseRequest) -> web.Response | None:
        if request.method != "GET" or not request.path.endswith(f"/{plural}"):
            return None
        message = (
            f'{f"{plural}.{group}".rstrip(".")} is forbidden: User "manager" cannot '
            f'list resource "{plural}" in API group "{group}" at the cluster scope'
        )
        return refusal(403, "Forbidden", message)

    return fault


def job_is_deleted(cluster: FaultyCluster) -> bool:
    return not cluster.has("jobs.batch", "default", "done")


def authority_is_published(cluster: FaultyCluster) -> bool:
    return cluster.has("configmaps", "default", "kube-root-ca.crt")


async def readiness(manager: Daemon, plural: str) -> str:
    """Return the line of /readyz about a resource, as an authorized user sees it.

    Until the main loop, which starts the controllers, has answered once, the page says
    only that it has not.
    """
    text = BUSY
    async with asyncio.timeout(PATIENCE):
        while BUSY in text:
            _, text = await manager.get("/readyz?verbose", as_admin=True)
    lines = [line for line in text.splitlines() if plural in line]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("plural", "group", "done"),
    [
        ("jobs", "batch", job_is_deleted),
        ("configmaps", "", authority_is_published),
    ],
)
@on_uvloop
async def test_one_resource_that_cannot_be_listed_stops_no_other_controller(
    tmp_path: Path,
    figures: dict[str, object],
    plural: str,
    group: str,
    done: Callable[[FaultyCluster], bool],
) -> None:
    """Only the controller that needs it waits, and starts when it may list."""
    async with faulty_cluster() as cluster:
        cluster.faults.append(refused(plural, group))
        await end_a_job(cluster, "done")
        async with run_daemon(cluster.kubeconfig, tmp_path) as manager:
            await cluster.create(deployments("default"), workload("web", 3))
            figures["rolled out after"] = rolled_out = await seconds_until(
                lambda: len(cluster.stored("pods", "default")) == 3, PATIENCE
            )
            figures["lease was taken"] = leads = bool(cluster.renewals())
            live, _ = await manager.get("/livez")
            figures["/livez"] = live
            figures["/readyz"] = said = await readiness(manager, plural)
            waited = not done(cluster)
            cluster.faults.clear()
            figures["started after being allowed"] = started = await seconds_until(
                lambda: done(cluster), RESTART
            )
        assert rolled_out < PATIENCE
        assert leads
        assert live == 200
        assert "forbidden" in said
        assert waited
        assert started < RESTART
