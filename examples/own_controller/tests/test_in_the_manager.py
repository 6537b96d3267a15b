"""The manager runs a controller of another package."""

import asyncio
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry
from shared_config import CONTROLLER
from shared_config.metrics import SharedConfigMetrics

from controller_manager.api.core.v1 import EVENTS
from controller_manager.cli.command import make_command
from controller_manager.observability.exposition import expose
from controller_manager.registry import registry
from controller_manager.runtime.permissions import (
    cluster_role,
    cluster_role_binding,
    controller_role_name,
    rule,
    service_account,
)
from controller_manager.runtime.registry import Registry
from controller_manager.serving.health import probe

if TYPE_CHECKING:
    from conftest import Cluster, MakeCluster

ROOT = Path(__file__).parents[1]


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the entry point of pyproject.toml found, as after an installation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ((group, named),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in named.items())]
    about = tmp_path / "shared_config_controller-1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text("\n".join(lines))
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry.cache_clear()
    yield
    registry.cache_clear()


@pytest.mark.usefixtures("_installed")
def test_the_entry_point_leads_to_the_controller() -> None:
    """Then its flag is in the help, in a section of its own, and is read."""
    assert registry()["shared-config"] == replace(CONTROLLER, package="shared_config")
    shown = CliRunner().invoke(make_command(), ["--help"]).output
    section = shown.partition("Shared-config-controller flags:\n\n")[2]
    assert " ".join(section.partition("\n\n")[0].split()) == (
        "--shared-config-namespace string The namespace whose config map shared-config "
        'is copied into all others. (default "kube-system")'
    )
    printed = CliRunner().invoke(
        make_command(), ["config", "--shared-config-namespace=shop"]
    )
    assert yaml.safe_load(printed.output)["SharedConfigController"] == {
        "SharedConfigNamespace": "shop"
    }


@pytest.mark.usefixtures("_installed")
def test_a_value_that_the_flag_does_not_take_is_one_line() -> None:
    """The message names the flag."""
    refused = CliRunner().invoke(make_command(), ["--shared-config-namespace=No/where"])
    assert refused.exit_code == 1
    assert refused.output == (
        "Error: --shared-config-namespace: must be the name of a namespace, it is "
        "'No/where'\n"
    )


def test_the_controller_is_selected_like_any_other(builds: Registry) -> None:
    """By name and by alias; it is on by default."""
    everybody = [
        each.name for each in builds.descriptors if not each.disabled_by_default
    ]
    assert CONTROLLER.name in everybody

    def selected(*entries: str) -> list[str]:
        return [each.name for each in builds.select(entries)]

    assert selected("*") == everybody
    assert selected("*", "-shared-config-controller") == [
        name for name in everybody if name != CONTROLLER.name
    ]
    assert selected("*", "-shared-config") == selected("*", f"-{CONTROLLER.name}")
    assert selected("shared-config") == [CONTROLLER.name]


@pytest.mark.looptime
async def test_the_controller_has_its_check_and_its_metrics(cluster: "Cluster") -> None:
    """Those that every controller has, and its own."""
    await cluster.create("kube-system", a="1")
    async with cluster.manager() as manager:
        await asyncio.sleep(1)
        checks = manager.healthz()
    assert probe("healthz", checks, verbose=True).text.splitlines() == [
        "[+]shared-config-controller ok",
        "healthz check passed",
    ]
    exposed = expose(cluster.metrics).decode().splitlines()
    (own,) = CONTROLLER.metrics
    assert [line for line in exposed if line.startswith(own)] == [
        f'{own}{{verb="create"}} 2.0',
        f'{own}{{verb="update"}} 0.0',
    ]
    name = CONTROLLER.name
    for family, label in (
        ("workqueue_adds_total", "name"),
        ("controller_sync_duration_seconds_count", "controller"),
    ):
        assert any(line.startswith(f'{family}{{{label}="{name}"') for line in exposed)


@pytest.mark.looptime
async def test_a_controller_that_is_switched_off_writes_nothing(
    cluster: "Cluster",
) -> None:
    """The others run."""
    await cluster.create("kube-system", a="1")
    async with cluster.manager("--controllers=*,-shared-config") as manager:
        await asyncio.sleep(1)
        running = manager.controllers.names
    assert CONTROLLER.name not in running
    assert "namespace-controller" in running
    assert set(await cluster.data()) == {"kube-system"}


@pytest.mark.looptime
@pytest.mark.parametrize("is_installed", [True, False])
async def test_the_permissions_suffice_and_are_needed(
    make_cluster: "MakeCluster", request: pytest.FixtureRequest, is_installed: bool
) -> None:
    """A development cluster with RBAC makes the roles of installed controllers."""
    if is_installed:
        request.getfixturevalue("_installed")
    cluster = await make_cluster(rbac=True)
    await cluster.create("kube-system", a="1")
    await cluster.create("shop", mine="yes")
    flag = "--use-service-account-credentials=true"
    async with cluster.manager(flag, confined=True):
        await asyncio.sleep(1)
    assert ("default" in await cluster.data()) is is_installed
    events = (await cluster.client.list_page(EVENTS)).items
    assert [each.reason for each in events] == ["NameTaken"] * is_installed


def test_the_manifest_gives_what_the_descriptor_permits() -> None:
    """On real clusters an administrator creates the role."""
    name = controller_role_name(CONTROLLER.account)
    assert list(yaml.safe_load_all((ROOT / "rbac.yaml").read_text())) == [
        cluster_role(name, map(rule, CONTROLLER.permissions)),
        cluster_role_binding(name, [service_account(CONTROLLER.account)]),
    ]


def test_the_descriptor_names_the_metrics_that_are_registered() -> None:
    """No more and no fewer."""
    metrics = CollectorRegistry()
    SharedConfigMetrics(metrics)
    registered = {f"{each.name}_total" for each in metrics.collect()}
    assert registered == set(CONTROLLER.metrics)
