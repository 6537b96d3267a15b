"""More custom resources than the process may open files."""

from pathlib import Path

import pytest

from controller_manager.api.json_objects import JSON
from tests.robustness.cluster import FaultyCluster, faulty_cluster
from tests.robustness.daemon import run_daemon
from tests.robustness.objects import owned
from tests.robustness.situation import now, on_uvloop, seconds_until, until_time

pytestmark = pytest.mark.nightly

RESOURCES = 220
GROUP = "robustness.example.com"
SOFT = 200
HARD = 4096
COLLECTED = 45.0
"""Seconds within which a dependent must be deleted; the first sync may take 30 s."""

RENEW_DEADLINE = 10.0
FLAGS = ("--kube-api-qps=500", "--kube-api-burst=500")


def definition(number: int) -> JSON:
    plural = f"things{number}"
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": f"thing{number}",
                "kind": f"Thing{number}",
                "listKind": f"Thing{number}List",
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


async def define(cluster: FaultyCluster) -> None:
    """Define all resources, and create an object whose owner does not exist."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for number in range(RESOURCES):
        await cluster.create(path, definition(number))
    await cluster.create(
        f"/apis/{GROUP}/v1/namespaces/default/things7",
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Thing7",
            **owned("orphan", "ConfigMap", "vanished"),
        },
    )


@on_uvloop
async def test_the_soft_limit_of_open_files_is_raised(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    async with faulty_cluster() as cluster:
        await define(cluster)
        async with run_daemon(
            cluster.kubeconfig, tmp_path, *FLAGS, files=(SOFT, HARD)
        ) as manager:
            await manager.until_it_leads()
            figures["collected after"] = collected = await seconds_until(
                lambda: not cluster.has(f"things7.{GROUP}", "default", "orphan"),
                COLLECTED,
            )
            watched = {
                each.path
                for each in cluster.requests
                if each.path.startswith(f"/apis/{GROUP}/v1/things")
            }
            figures["resources asked for"] = len(watched)
            figures["times out of files"] = manager.log().count("Too many open")
            figures["longest without a renewal"] = cluster.longest_without_renewal()
            figures["daemon is running"] = manager.is_running
            assert manager.is_running
            assert cluster.longest_without_renewal() < RENEW_DEADLINE
            assert len(watched) == RESOURCES
            assert collected < COLLECTED


@on_uvloop
async def test_a_hard_limit_that_is_too_low_costs_completeness_and_not_the_lease(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    async with faulty_cluster() as cluster:
        await define(cluster)
        async with run_daemon(
            cluster.kubeconfig, tmp_path, *FLAGS, files=(SOFT, SOFT)
        ) as manager:
            await manager.until_it_leads()
            began = now()
            # Two deadlines: a renewal that fails is noticed after one deadline.
            await until_time(began + 2.5 * RENEW_DEADLINE)
            said = [line for line in manager.log().splitlines() if is_of_limit(line)]
            figures["said of the limit"] = said[:1]
            figures["times out of files"] = manager.log().count("Too many open")
            figures["longest without a renewal"] = cluster.longest_without_renewal()
            figures["daemon is running"] = manager.is_running
            assert manager.is_running
            assert cluster.longest_without_renewal() < RENEW_DEADLINE
            assert said


def is_of_limit(line: str) -> bool:
    """Tell whether a line of the log is about the limit of open files."""
    return "limit" in line.lower() and "open files" in line.lower()
