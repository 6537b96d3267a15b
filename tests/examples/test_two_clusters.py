"""Config maps with a label have a mirror in another cluster."""

import asyncio
import sys
from pathlib import Path

import e6_two_clusters as example
import pytest
import yaml
from click.testing import CliRunner
from e6_two_clusters import CONTROLLER, MIRROR, MIRRORS

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.cli.operator import make_command
from controller_manager.manager.startup import StartError
from controller_manager.sdk import (
    DONE,
    Client,
    Descriptor,
    For,
    NotFound,
    ObjectMeta,
    Outcome,
    Owns,
    Reconciler,
    Resource,
    allow,
    core_v1,
)
from controller_manager.testing import (
    ClusterSettings,
    DevelopmentCluster,
    VirtualManager,
)
from tests.distributions import environment

HERE = core_v1.CONFIG_MAPS
WRITE = "PATCH /api/v1/namespaces/default/configmaps/a in edge"


class LabelNamespaces(Reconciler[core_v1.Namespace]):
    """Needs the first cluster only."""

    watches = (For(core_v1.NAMESPACES),)

    async def reconcile(self, namespace: core_v1.Namespace) -> Outcome:
        metadata = {"name": namespace.metadata.name, "labels": {"seen": "true"}}
        await self.client.apply(core_v1.NAMESPACES, {"metadata": metadata})
        return DONE


OTHER = Descriptor(
    name="label-namespaces",
    load=LabelNamespaces,
    permissions=(allow(core_v1.NAMESPACES, "patch"),),
)


@pytest.fixture
def own_controllers() -> list[Descriptor]:
    return [CONTROLLER, OTHER]


def config_map(name: str, color: str, *, mirrored: bool = True) -> core_v1.ConfigMap:
    labels = {MIRROR: "true"} if mirrored else {}
    metadata = ObjectMeta(namespace="default", name=name, labels=labels)
    return core_v1.ConfigMap(metadata=metadata, data={"color": color})


async def paint(manager: VirtualManager, color: str) -> None:
    await manager.client.patch(HERE, "default", "a", {"data": {"color": color}})


async def colors(client: Client, resource: Resource[core_v1.ConfigMap]) -> list[str]:
    page = await client.list_page(resource, "default")
    return [(each.data or {}).get("color", "") for each in page.items]


def mirror_writes(manager: VirtualManager) -> list[str]:
    return [each for each in manager.writes if each.endswith(" in edge")]


async def test_a_labelled_config_map_is_mirrored_and_others_are_not(
    manager: VirtualManager,
) -> None:
    await manager.client.create(HERE, config_map("a", "red"))
    await manager.client.create(HERE, config_map("b", "blue", mirrored=False))
    await manager.settle()
    assert await colors(manager.client, MIRRORS) == ["red"]
    assert mirror_writes(manager) == [WRITE]
    await paint(manager, "green")
    await manager.settle()
    assert await colors(manager.client, MIRRORS) == ["green"]
    # Each cluster has its cache, its metrics and its own objects.
    names = ("", "/edge")
    for each, count in zip(names, (2, 1), strict=True):
        labels = f'name="kube-controller-manager{each}",resource="configmaps"'
        shown = f'informer_cached_objects{{group="",{labels},version="v1"}} {count}.0'
        assert shown in manager.metrics()


async def test_a_mirror_that_is_changed_or_deleted_is_repaired(
    manager: VirtualManager,
) -> None:
    await manager.client.create(HERE, config_map("a", "red"))
    await manager.settle()
    await manager.client.patch(MIRRORS, "default", "a", {"data": {"color": "x"}})
    await manager.settle()
    assert await colors(manager.client, MIRRORS) == ["red"]
    await manager.client.delete(MIRRORS, "default", "a")
    await manager.settle()
    assert await colors(manager.client, MIRRORS) == ["red"]


async def test_a_mirror_goes_with_its_config_map_also_in_a_restart(
    manager: VirtualManager,
) -> None:
    for name in ("a", "b"):
        await manager.client.create(HERE, config_map(name, "red"))
    await manager.settle()
    await manager.client.delete(HERE, "default", "a")
    await manager.settle()
    assert await colors(manager.client, MIRRORS) == ["red"]
    await manager.crash()
    await manager.client.delete(HERE, "default", "b")
    await manager.settle()
    assert await colors(manager.client, MIRRORS) == []


async def test_what_is_no_mirror_stays(manager: VirtualManager) -> None:
    await manager.client.create(MIRRORS, config_map("a", "theirs", mirrored=False))
    await manager.client.create(HERE, config_map("a", "red"))
    await manager.settle()
    assert await colors(manager.client, MIRRORS) == ["theirs"]
    assert "default/a of the other cluster is not a mirror" in manager.log
    await manager.client.delete(HERE, "default", "a")
    await manager.settle()
    assert await colors(manager.client, MIRRORS) == ["theirs"]


async def test_the_other_cluster_need_not_be_there_at_the_start(
    manager: VirtualManager,
) -> None:
    """The controller that needs it waits; the other one works."""
    await manager.client.create(HERE, config_map("a", "red"))
    with manager.faults_in("edge").outage():
        await manager.settle(30)
        seen = await manager.client.get(core_v1.NAMESPACES, "", "default")
        assert (seen.metadata.labels or {})["seen"] == "true"
        assert mirror_writes(manager) == []
        assert "configmaps in edge" in manager.log
    await manager.settle(60)
    assert await colors(manager.client, MIRRORS) == ["red"]


async def test_an_outage_of_one_cluster_stops_no_work_on_the_other(
    manager: VirtualManager,
) -> None:
    await manager.client.create(HERE, config_map("a", "red"))
    await manager.settle()
    with manager.faults_in("edge").outage():
        await paint(manager, "green")
        space = core_v1.Namespace(metadata=ObjectMeta(name="new"))
        await manager.client.create(core_v1.NAMESPACES, space)
        await manager.settle(5)
        assert "PATCH /api/v1/namespaces/new" in manager.writes
        assert await colors(manager.client, MIRRORS) == ["red"]
    await manager.settle(60)
    assert await colors(manager.client, MIRRORS) == ["green"]
    with manager.faults.outage():
        await manager.client.patch(MIRRORS, "default", "a", {"data": {"color": "x"}})
        await manager.settle(5)
        assert await colors(manager.client, MIRRORS) == ["green"]


async def test_rights_in_one_cluster_are_none_in_the_other() -> None:
    """The message says which cluster."""
    permissions = (allow(HERE, "create", "patch", "delete"),)
    confined = Descriptor("mirror", CONTROLLER.load, permissions=permissions)
    manager = VirtualManager([confined])
    await manager.client.create(HERE, config_map("a", "red"))
    with pytest.raises(AssertionError, match="may not patch configmaps in edge: give"):
        await manager.settle()
    await manager.stop()
    with pytest.raises(ValueError, match="configmaps in west: the cluster is not know"):
        await manager.client.get(HERE.in_cluster("west"), "default", "a")


class Wrong(Reconciler[core_v1.ConfigMap]):
    """Owns what is in another cluster."""

    watches = (For(core_v1.CONFIG_MAPS), Owns(MIRRORS))

    async def reconcile(self, _: core_v1.ConfigMap) -> Outcome:
        return DONE


async def test_owners_are_in_the_same_cluster() -> None:
    manager = VirtualManager([Descriptor("mirror", Wrong)])
    wrong = pytest.RaisesExc(StartError, match="owners are in the same cluster")
    with pytest.RaisesGroup(wrong, flatten_subgroups=True):
        await manager.start()


def test_a_name_of_a_cluster_can_be_a_flag() -> None:
    with pytest.raises(ValueError, match="'Edge/1' is no name of a cluster"):
        HERE.in_cluster("Edge/1")


def run_operator(*arguments: str) -> str:
    return CliRunner().invoke(make_command((CONTROLLER,)), list(arguments)).output


def test_the_flag_of_the_other_cluster_must_be_given() -> None:
    assert "--kubeconfig-edge file" in run_operator("--help")
    refused = run_operator("--kubeconfig=x")
    assert "--kubeconfig-edge: must be given" in refused


def test_the_manifests_of_both_clusters() -> None:
    """Each output says for which cluster it is."""
    text = run_operator("manifests", "--namespace=web")
    first = {each["kind"]: each for each in yaml.safe_load_all(text)}
    assert text.startswith("# For the first cluster. Others: --cluster=edge\n")
    (rule,) = (
        each
        for each in first["ClusterRole"]["rules"]
        if "configmaps" in each["resources"]
    )
    assert rule["verbs"] == ["list", "watch"]
    pod = first["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == ["--kubeconfig-edge=/etc/clusters/edge/kubeconfig"]
    text = run_operator("manifests", "--namespace=web", "--cluster=edge")
    assert text.startswith("# For the cluster edge.\n")
    there = {each["kind"]: each for each in yaml.safe_load_all(text)}
    assert there.keys() == {
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
    }
    (rule,) = there["ClusterRole"]["rules"]
    assert rule["resources"] == ["configmaps"]
    assert rule["verbs"] == ["create", "delete", "list", "patch", "watch"]
    assert "there is no cluster 'west'" in run_operator("manifests", "--cluster=west")


async def mirrored(client: Client) -> None:
    """Wait until the config map is there."""
    async with asyncio.timeout(60):
        while "red" not in await colors(client, HERE):  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_process_works_on_two_clusters_with_the_roles_of_the_manifests(
    tmp_path: Path,
) -> None:
    """It has a lease in the first one only."""
    files = {}
    for name, flags in {"first": (), "edge": ("--cluster=edge",)}.items():
        documents = yaml.safe_load_all(run_operator("manifests", *flags))
        file = files[name] = tmp_path / f"{name}.yaml"
        wanted = [
            each
            for each in documents
            if each["kind"] not in ("ServiceMonitor", "Deployment")
        ]
        file.write_text(yaml.safe_dump_all(wanted))
    settings = {
        name: ClusterSettings(nodes=0, rbac=True, manifests=(file,))
        for name, file in files.items()
    }
    account = (CONTROLLER.name, CONTROLLER.name)
    async with (
        DevelopmentCluster(settings["first"]) as first,
        DevelopmentCluster(settings["edge"]) as edge,
        first.client() as here,
        edge.client() as there,
    ):
        command = [
            *(sys.executable, example.__file__, "--secure-port=0"),
            f"--kubeconfig={first.account_kubeconfig(*account)}",
            f"--kubeconfig-edge={edge.account_kubeconfig(*account)}",
            f"--leader-elect-resource-namespace={CONTROLLER.name}",
        ]
        await here.create(HERE, config_map("a", "red"))
        process = await asyncio.create_subprocess_exec(*command, env=environment())
        try:
            await mirrored(there)
        finally:
            process.terminate()
            await process.wait()
        lease = (LEASES, CONTROLLER.name, CONTROLLER.name)
        assert (await here.get(*lease)).spec.holder_identity is not None
        with pytest.raises(NotFound):
            await there.get(*lease)
