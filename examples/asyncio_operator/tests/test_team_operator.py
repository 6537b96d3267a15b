"""The operator, on a development cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import yaml
from kubernetes_asyncio import client
from kubernetes_asyncio.client import ApiException
from team_operator import LABEL, NAME, TeamOperator

if TYPE_CHECKING:
    from controller_manager.testing import DevelopmentCluster, Faults

ROLE = Path(__file__).parents[1] / "role.yaml"


class Teams:
    """The user of one namespace."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._core = client.CoreV1Api(api)
        self.namespace = namespace

    async def label(self, team: str) -> None:
        body = {"metadata": {"labels": {LABEL: team}}}
        await self._core.patch_namespace(self.namespace, body)

    async def wait_for(self, team: str) -> None:
        """Wait until the config map names the team."""
        async with asyncio.timeout(30):
            while await self._team() != team:  # noqa: ASYNC110 - a cluster is polled
                await asyncio.sleep(0.02)

    async def _team(self) -> str | None:
        found = await self._core.list_namespaced_config_map(self.namespace)
        data = {each.metadata.name: each.data for each in found.items}
        return data[NAME]["team"] if NAME in data else None


@pytest_asyncio.fixture
async def api(cluster: "DevelopmentCluster") -> AsyncIterator[client.ApiClient]:
    """Return the client of an administrator."""
    async with cluster.api_client() as connection:
        yield connection


@pytest_asyncio.fixture
async def account(api: client.ApiClient, namespace: str) -> str:
    """Create the service account of the operator; return its name."""
    roles = client.RbacAuthorizationV1Api(api)
    role = yaml.safe_load(ROLE.read_text())
    name = str(role["metadata"]["name"])
    with suppress(ApiException):  # an earlier test has created it
        await roles.create_cluster_role(role)
    metadata = client.V1ObjectMeta(name=name)
    await client.CoreV1Api(api).create_namespaced_service_account(
        namespace, client.V1ServiceAccount(metadata=metadata)
    )
    await roles.create_cluster_role_binding(
        client.V1ClusterRoleBinding(
            metadata=client.V1ObjectMeta(name=namespace),
            role_ref=client.V1RoleRef(
                api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=name
            ),
            subjects=[
                client.RbacV1Subject(
                    kind="ServiceAccount", name=name, namespace=namespace
                )
            ],
        )
    )
    return name


@pytest_asyncio.fixture
async def teams(
    cluster: "DevelopmentCluster",
    api: client.ApiClient,
    account: str,
    namespace: str,
) -> AsyncIterator[Teams]:
    """Run the operator as its service account; return what a user does."""
    async with cluster.api_client(namespace, account) as own:
        running = asyncio.create_task(TeamOperator(own, pause=0.05).run())
        yield Teams(api, namespace)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_labelled_namespace_has_its_config_map(teams: Teams) -> None:
    """It follows the label."""
    await teams.label("blue")
    await teams.wait_for("blue")
    await teams.label("red")
    await teams.wait_for("red")


async def test_a_conflict_is_no_error(
    teams: Teams, faults: "Faults", caplog: pytest.LogCaptureFixture
) -> None:
    """Twice somebody else was faster, and nothing is logged about that."""
    await teams.label("blue")
    await teams.wait_for("blue")
    fault = faults.conflict(times=2, resource="configmaps", name=NAME)
    await teams.label("red")
    await teams.wait_for("red")
    assert (fault.count, caplog.messages) == (2, [])


async def test_the_operator_waits_as_long_as_the_server_says(
    teams: Teams, faults: "Faults"
) -> None:
    """A client that did not wait would be refused more often than once."""
    with faults.too_many_requests(
        retry_after=1, verbs="create", resource="configmaps"
    ) as fault:
        await teams.label("blue")
        async with asyncio.timeout(30):
            while not fault.count:  # noqa: ASYNC110 - a cluster is polled
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        assert fault.count == 1
    await teams.wait_for("blue")


@pytest.mark.parametrize("how", ["drop_watches", "expire_watches", "restart"])
async def test_changes_are_seen_after_a_watch_has_ended(
    teams: Teams, faults: "Faults", how: str
) -> None:
    """It does so after a cut connection, a lost history and a restart of the server."""
    for team in ("blue", "green"):  # the second one comes by the watch, which is open
        await teams.label(team)
        await teams.wait_for(team)
    getattr(faults, how)()
    await teams.label("red")
    await teams.wait_for("red")
