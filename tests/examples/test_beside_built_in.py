"""Deployments of a namespace that sleeps have no pods, and get them back."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from e7_beside_built_in import CONTROLLER
from msgspec.structs import replace

from controller_manager.registry import registry
from controller_manager.sdk import apps_v1, core_v1
from controller_manager.testing import VirtualManager
from tests.distributions import ROOT, run_program

BUILT_IN = [
    each
    for each in registry().descriptors
    if each.name in ("deployment-controller", "replicaset-controller")
]
pytestmark = pytest.mark.own_controllers(CONTROLLER, *BUILT_IN)


async def create(manager: VirtualManager, name: str, replicas: int) -> None:
    """Create a deployment."""
    labels = {"app": name}
    container = {"name": "main", "image": "nginx"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    selector = {"matchLabels": labels}
    deployment = {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": pods},
    }
    await manager.client.apply(apps_v1.DEPLOYMENTS, deployment)


async def sleep(manager: VirtualManager, value: str | None) -> None:
    """Write the label of the namespace, or remove it; let the controllers work."""
    patch = {"metadata": {"labels": {"example.com/asleep": value}}}
    await manager.client.patch(core_v1.NAMESPACES, "", "default", patch)
    await manager.settle()


async def deployment(manager: VirtualManager, name: str) -> apps_v1.Deployment:
    """Return a deployment, without what its own controller writes."""
    found = await manager.client.get(apps_v1.DEPLOYMENTS, "default", name)
    plain = replace(found.metadata, resource_version="", generation=0)
    notes = found.metadata.annotations or {}
    own = {key: notes[key] for key in notes if key.startswith("example.com/")}
    metadata = replace(plain, annotations=own)
    return replace(found, metadata=metadata, status=apps_v1.DeploymentStatus())


async def pods(manager: VirtualManager) -> int:
    return len((await manager.client.list_page(core_v1.PODS)).items)


async def test_pods_go_and_come_back(manager: VirtualManager) -> None:
    """A deployment of no replicas has none afterwards, either."""
    await create(manager, "web", 3)
    await create(manager, "none", 0)
    await manager.settle()
    web, none = [await deployment(manager, each) for each in ("web", "none")]
    assert await pods(manager) == 3
    await sleep(manager, "true")
    assert await pods(manager) == 0
    noted = {"example.com/replicas-awake": "3"}
    metadata = replace(web.metadata, annotations=noted)
    asleep = replace(web, metadata=metadata, spec=replace(web.spec, replicas=0))
    assert [await deployment(manager, each) for each in ("web", "none")] == [
        asleep,
        none,
    ]
    await sleep(manager, None)
    assert await pods(manager) == 3
    assert [await deployment(manager, each) for each in ("web", "none")] == [web, none]


async def test_a_deployment_that_comes_later_sleeps_as_well(
    manager: VirtualManager,
) -> None:
    """The count that a user asks for in the meantime is the one that comes back."""
    await sleep(manager, "true")
    await create(manager, "web", 3)
    await manager.settle()
    await create(manager, "web", 5)
    await manager.settle()
    assert await pods(manager) == 0
    await sleep(manager, "false")
    assert await pods(manager) == 5


@pytest.mark.slow
def test_the_manager_has_it_once_it_is_installed(tmp_path: Path) -> None:
    """By the entry point of pyproject.toml."""
    # A copy: setuptools writes into the directory that it builds.
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("pyproject.toml", "e7_beside_built_in.py"):
        shutil.copy(ROOT / "examples" / name, source)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--target")
    result = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, target, source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    shown = run_program("roles", "sleeping-namespaces", directories=(target,))
    assert shown.returncode == 0, shown.stderr
    assert "system:controller:sleeping-namespaces" in shown.stdout
