"""mypy refuses to write a projection by PUT, and nothing else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

VERBS = """
from controller_manager.api.apps.v1 import DEPLOYMENTS, Deployment
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import PartialObject
from controller_manager.api.meta import Resource
from controller_manager.client.rest.client import Client

PARTIAL: Resource[PartialObject] = Resource(
    "", "v1", "pods", "Pod", PartialObject, metadata_only=True
)


async def write_projections(
    client: Client, pod: Pod, node: Node, partial: PartialObject
) -> None:
    await client.update(PODS, pod)  # refused
    await client.update(PODS, pod, "status")  # refused
    await client.update(NODES, node)  # refused
    await client.update(PARTIAL, partial)  # refused
    await client.create(PODS, pod)  # refused
    await client.create_subresource(PODS, "n", "p", "eviction", pod)  # refused
    await client.update(DEPLOYMENTS, pod)  # refused


async def do_what_is_allowed(client: Client, deployment: Deployment) -> None:
    stored: Deployment = await client.update(DEPLOYMENTS, deployment)
    await client.update(DEPLOYMENTS, stored, "status")
    await client.create(DEPLOYMENTS, stored)
    pod: Pod = await client.get(PODS, "n", "p")
    pod = await client.create_json(PODS, "n", b"{}")
    pod = await client.patch(PODS, "n", pod.metadata.name, {})
    await client.delete(PODS, "n", "p")
"""


@pytest.mark.slow
def test_the_type_checker_knows_what_may_be_written(tmp_path: Path) -> None:
    snippet = tmp_path / "verbs.py"
    snippet.write_text(VERBS)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(snippet)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    wrong = {int(line) for line in re.findall(r"verbs\.py:(\d+): error", ran.stdout)}
    expected = {
        number
        for number, line in enumerate(VERBS.splitlines(), 1)
        if line.endswith("# refused")
    }
    assert wrong == expected, ran.stdout + ran.stderr
