"""The manager runs the controller of another package: examples/own_controller."""

import asyncio
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from controller_manager.cli.command import make_command
from controller_manager.client.builder import Connections
from controller_manager.observability.exposition import expose
from controller_manager.options.parsing import parse
from controller_manager.registry import registry
from controller_manager.runtime.permissions import controller_roles
from controller_manager.sdk import core_v1
from controller_manager.serving.health import probe
from tests.clusters import Cluster, make_config, run_manager
from tests.distributions import EXAMPLE

NAME = "shared-config-controller"


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the entry point of pyproject.toml found, as after an installation."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    ((group, named),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in named.items())]
    about = tmp_path / "shared_config_controller-1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text("\n".join(lines))
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE)
    registry.cache_clear()
    yield
    registry.cache_clear()


def create(cluster: Cluster, namespace: str, **data: str) -> None:
    """Create the config map in a namespace."""
    kind = cluster.server.catalogue.find("", "v1", "configmaps")
    assert kind is not None
    obj: dict[str, Any] = {"metadata": {"name": "shared-config"}, "data": data}
    cluster.server.objects.create(kind, namespace, obj)


async def copies(cluster: Cluster) -> set[str]:
    """Return the namespaces with the config map."""
    page = await cluster.client.list_page(core_v1.CONFIG_MAPS)
    found = (each.metadata for each in page.items)
    return {each.namespace for each in found if each.name == "shared-config"}


def test_the_entry_point_leads_to_the_controller() -> None:
    """Then its flag is in the help, in a section of its own, and is read."""
    assert registry()["shared-config"].package == "shared_config"
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


def test_a_value_that_the_flag_does_not_take_is_one_line() -> None:
    """The message names the flag."""
    refused = CliRunner().invoke(make_command(), ["--shared-config-namespace=No/where"])
    assert refused.exit_code == 1
    assert refused.output == (
        "Error: --shared-config-namespace: must be the name of a namespace, it is "
        "'No/where'\n"
    )


def test_the_controller_is_selected_like_any_other() -> None:
    """By name and by alias; it is on by default."""

    def selected(*entries: str) -> list[str]:
        return [each.name for each in registry().select(entries)]

    everybody = selected("*")
    assert NAME in everybody
    others = [name for name in everybody if name != NAME]
    assert selected("*", f"-{NAME}") == selected("*", "-shared-config") == others
    assert selected("shared-config") == [NAME]


@pytest.mark.looptime
async def test_the_controller_has_its_check_and_its_metrics() -> None:
    """Those that every controller has, and its own."""
    cluster, metrics = Cluster(), CollectorRegistry()
    create(cluster, "kube-system", a="1")
    connections = Connections(cluster.transport)
    config = make_config(controllers=("shared-config",))
    where = (connections, cluster.clock, cluster.rng, config, None, metrics)
    async with run_manager(*where) as manager:
        await asyncio.sleep(1)
        checks = manager.healthz()
    assert probe("healthz", checks, verbose=True).text.splitlines() == [
        f"[+]{NAME} ok",
        "healthz check passed",
    ]
    exposed = expose(metrics).decode().splitlines()
    assert 'shared_config_writes_total{verb="create"} 1.0' in exposed
    for family, label in (
        ("workqueue_adds_total", "name"),
        ("controller_sync_duration_seconds_count", "controller"),
    ):
        assert any(line.startswith(f'{family}{{{label}="{NAME}"') for line in exposed)


@pytest.mark.looptime
async def test_a_controller_that_is_switched_off_writes_nothing() -> None:
    """The others run."""
    cluster = Cluster()
    create(cluster, "kube-system", a="1")
    config = make_config(controllers=("*", "-shared-config"))
    connections = Connections(cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        await asyncio.sleep(1)
        running = manager.controllers.names
    assert NAME not in running
    assert "namespace-controller" in running
    assert await copies(cluster) == {"kube-system"}


@pytest.mark.looptime
@pytest.mark.parametrize("is_installed", [True, False])
async def test_the_permissions_suffice_and_are_needed(
    is_installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A development cluster with RBAC makes the roles of installed controllers."""
    config = parse(
        {
            "controllers": ["shared-config"],
            "leader-elect": ["false"],
            "secure-port": ["0"],
            "use-service-account-credentials": ["true"],
        },
        registry(),
    )
    with monkeypatch.context() as patch:
        if not is_installed:
            builds = registry().select(["*", "-shared-config"])
            patch.setattr("tests.clusters.this_build", lambda: type(registry())(builds))
        cluster = Cluster(rbac=True)
    create(cluster, "kube-system", a="1")
    async with cluster.confined_manager(config):
        await asyncio.sleep(1)
    assert ("default" in await copies(cluster)) is is_installed


def test_the_manifest_gives_what_the_descriptor_permits() -> None:
    """On real clusters an administrator creates the role."""
    descriptor = registry()["shared-config"]
    assert list(yaml.safe_load_all((EXAMPLE / "rbac.yaml").read_text())) == list(
        controller_roles(descriptor.account, descriptor.permissions)
    )


def test_the_manifests_of_a_process_have_all_that_it_needs() -> None:
    """The subcommand roles prints them for any installed controller."""
    arguments = ["roles", "shared-config", "--manifests", "--namespace=config"]
    documents = list(
        yaml.safe_load_all(CliRunner().invoke(make_command(), arguments).output)
    )
    (role,) = (each for each in documents if each["kind"] == "ClusterRole")
    assert [(each["resources"], each["verbs"]) for each in role["rules"]] == [
        (["configmaps"], ["create", "list", "update", "watch"]),
        (["events"], ["create", "patch", "update"]),
        (["namespaces"], ["list", "watch"]),
        (["events"], ["create", "patch", "update"]),
    ]
    assert {each["metadata"].get("namespace") for each in documents} == {
        *(None, "config", "kube-system")
    }
    refused = CliRunner().invoke(make_command(), ["roles", "--manifests"])
    assert refused.output == (
        "Error: roles --manifests: name the controllers of the process\n"
    )
