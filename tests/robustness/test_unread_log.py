"""A log whose reader lives, but does not read."""

import fcntl
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.robustness.cluster import faulty_cluster
from tests.robustness.daemon import run_daemon
from tests.robustness.objects import deployments, workload
from tests.robustness.situation import on_uvloop, seconds_until

pytestmark = pytest.mark.slow

PATIENCE = 20.0
"""Seconds for the daemon to start, or to make the pods of a deployment."""


@contextmanager
def unread_pipe() -> Iterator[int]:
    """Return the end to write to of a pipe that holds one page, and is never read."""
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    try:
        yield writer
    finally:
        os.close(reader)
        os.close(writer)


@on_uvloop
async def test_a_log_that_is_not_read_costs_neither_pods_nor_probes(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    with unread_pipe() as log:
        async with (
            faulty_cluster() as cluster,
            run_daemon(cluster.kubeconfig, tmp_path, "-v=4", log_to=log) as manager,
        ):
            rollouts, answers = [], []
            for number in range(5):
                name = f"web-{number}"
                await cluster.create(deployments("default"), workload(name, 3))
                wanted = 3 * (number + 1)
                rollouts.append(
                    await seconds_until(
                        lambda: len(cluster.stored("pods", "default")) == wanted,  # noqa: B023 - awaited here
                        PATIENCE,
                    )
                )
                answers.append((await manager.get("/livez"))[0])
            figures["rolled out after"] = rollouts
            figures["/livez answers"] = answers
            assert max(rollouts) < math.inf
            assert answers == [200] * 5
            assert cluster.longest_without_renewal() < PATIENCE
            assert manager.is_running
