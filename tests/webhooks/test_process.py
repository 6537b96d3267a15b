"""Two replicas of an operator serve webhooks, with the rights of its manifests."""

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from controller_manager.api.admissionregistration.v1 import (
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from controller_manager.api.coordination import v1 as coordination_v1
from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.services import SERVICES
from controller_manager.cli.manifests import operator_manifests
from controller_manager.cli.operator import operator_build
from controller_manager.sdk import (
    APIError,
    Client,
    NotFound,
    ObjectMeta,
)
from controller_manager.testing import ClusterSettings, DevelopmentCluster
from tests.distributions import environment
from tests.http.test_over_http import get, token_of
from tests.ports import free_port
from tests.sdk.websites import WEBSITES, Website, WebsiteSpec
from tests.webhooks.hooks import CONTROLLER, DEFINITION, OLD, VALIDATE

PROGRAM = """
from controller_manager.sdk import run
from tests.webhooks.hooks import CONTROLLER

run(CONTROLLER, namespace="web")
"""
CONFIGURATION = (VALIDATING_WEBHOOK_CONFIGURATIONS, "", "website-operator")
SECRET = (SECRETS, "web", "website-operator-webhooks")


def documents() -> list[Any]:
    """Return what is applied before the operator starts."""
    left_out = ("ServiceMonitor", "Deployment")
    manifests = operator_manifests(operator_build((CONTROLLER,)), "web", "")
    kept = [each for each in manifests if each["kind"] not in left_out]
    return [DEFINITION.manifest("website-operator-webhooks", "web"), *kept]


@asynccontextmanager
async def replica(
    account: Path, log: Path, secure: int, webhooks: int
) -> AsyncIterator[Process]:
    """Run a replica until left; it must end well."""
    reviews = ("authentication", "authorization")
    flags = [f"--{each}-kubeconfig={account}" for each in reviews]
    flags += [f"--kubeconfig={account}", f"--secure-port={secure}"]
    flags += [f"--webhook-port={webhooks}", "-v2"]
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, *flags),
            env=environment(),
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(60):
            while not is_ready(secure):
                assert process.returncode is None, text_of(log)
                await asyncio.sleep(0.1)
        yield process
    finally:
        process.terminate()
        await process.wait()
    assert process.returncode == 0, text_of(log)
    assert "forbidden" not in text_of(log)


def text_of(log: Path) -> str:
    return log.read_text()


def is_ready(port: int) -> bool:
    """Ask as kubelet does, which has no rights."""
    try:
        return bool(get(port, "/readyz/webhooks")[0] == 200)
    except OSError:
        return False


async def forward(client: Client, port: int) -> None:
    """Let the service lead to a replica."""
    metadata = {"annotations": {"devcluster/forward": f"127.0.0.1:{port}"}}
    name = "website-operator-webhooks"
    await client.patch(SERVICES, "web", name, {"metadata": metadata})


@pytest.mark.slow
async def test_every_replica_answers_reviews(tmp_path: Path) -> None:
    """The leader as the standby, with one certificate, which outlives its secret."""
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(documents()))
    settings = ClusterSettings(nodes=0, rbac=True, manifests=(file,))
    async with DevelopmentCluster(settings) as cluster, cluster.client() as client:
        account = cluster.account_kubeconfig("web", "website-operator")
        ports = [free_port() for _ in range(4)]
        with pytest.raises(APIError, match="failed calling webhook"):
            await client.create(WEBSITES, shop("early"))
        async with (
            replica(account, tmp_path / "1", *ports[:2]),
            replica(account, tmp_path / "2", *ports[2:]),
        ):
            for number, port in enumerate((ports[1], ports[3])):
                await forward(client, port)
                await use(client, str(number))
            await lose_secret(client)
            await use(client, "after")
            page = get(ports[2], "/metrics", token_of(cluster.kubeconfig))[1]
            assert f'requests_total{{code="200",webhook="{VALIDATE}"}}' in page
            assert 'certificate_expiration_timestamp_seconds{source="website' in page
            lease = await client.get(coordination_v1.LEASES, "web", "website-operator")
            assert lease.spec.holder_identity


def shop(name: str, image: str = "nginx", replicas: int = 1) -> Website:
    metadata = ObjectMeta(name=name, namespace="default")
    spec = WebsiteSpec(image=image, replicas=replicas)
    return Website(metadata=metadata, spec=spec)


async def use(client: Client, name: str) -> None:
    """Have a website changed, checked and converted."""
    made = await client.create(WEBSITES, shop(f"shop-{name}"))
    assert made.spec.image == "nginx:1"
    old = await client.get(OLD, "default", made.metadata.name)
    assert (old.spec.name, old.spec.tag) == ("nginx", "1")
    spec = replace(old.spec, tag="2")
    await client.update(OLD, replace(old, spec=spec))
    with pytest.raises(APIError, match="must be at most 10"):
        await client.create(WEBSITES, shop("large", replicas=11))


async def lose_secret(client: Client) -> None:
    """Delete the secret, and wait until a replica has brought it back."""
    before = await client.get(*SECRET)
    trusted = await client.get_json(*CONFIGURATION)
    await client.delete(*SECRET)
    async with asyncio.timeout(30):
        while True:
            try:
                after = await client.get(*SECRET)
            except NotFound:
                await asyncio.sleep(0.2)
            else:
                break
    assert after.data == before.data
    assert await client.get_json(*CONFIGURATION) == trusted
