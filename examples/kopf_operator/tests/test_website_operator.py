"""The operator, on a development cluster."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kopf
import pytest
import pytest_asyncio
import website_operator
import yaml
from kubernetes_asyncio import client
from kubernetes_asyncio.client import ApiClient, ApiException

if TYPE_CHECKING:
    from controller_manager.testing import DevelopmentCluster, Faults

CRD = Path(__file__).parents[1] / "crd.yaml"


@pytest_asyncio.fixture
async def api(cluster: "DevelopmentCluster") -> AsyncIterator[ApiClient]:
    """Return a client of the cluster, which has the custom resource."""
    async with cluster.api_client() as connection:
        definitions = client.ApiextensionsV1Api(connection)
        with suppress(ApiException):  # an earlier test has created it
            await definitions.create_custom_resource_definition(
                yaml.safe_load(CRD.read_text())
            )
        yield connection


@pytest.fixture
def _operator(api: ApiClient, namespace: str) -> Iterator[None]:
    """Run the operator in a namespace of its own, and in a thread: kopf wants one."""
    del api  # the custom resource exists
    stop, ready = threading.Event(), threading.Event()
    running = threading.Thread(
        target=kopf.run,
        kwargs={
            "namespaces": [namespace],
            "standalone": True,
            "stop_flag": stop,
            "ready_flag": ready,
        },
    )
    running.start()
    assert ready.wait(timeout=30)
    yield
    stop.set()
    running.join()


@pytest.fixture
def websites(_operator: None, api: ApiClient, namespace: str) -> "Websites":
    """Return what a user does in the namespace of the operator."""
    return Websites(api, namespace)


class Websites:
    """The user of one namespace."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._objects = client.CustomObjectsApi(api)
        self._apps = client.AppsV1Api(api)
        self._where = (*website_operator.KIND[:2], namespace, website_operator.KIND[2])
        self.namespace = namespace

    async def create(self, name: str, **spec: Any) -> None:
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Website",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self._objects.create_namespaced_custom_object(*self._where, body)

    async def change(self, name: str, **spec: Any) -> None:
        patch = [
            {"op": "add", "path": f"/spec/{field}", "value": value}
            for field, value in spec.items()
        ]
        await self._objects.patch_namespaced_custom_object(*self._where, name, patch)

    async def delete(self, name: str) -> None:
        await self._objects.delete_namespaced_custom_object(*self._where, name)

    async def ready(self, name: str) -> int:
        """Return how many pods of a website are ready, as its status says."""
        got = await self._objects.get_namespaced_custom_object(*self._where, name)
        count: int = got.get("status", {}).get("readyReplicas", 0)
        return count

    async def deployments(self) -> list[str]:
        found = await self._apps.list_namespaced_deployment(self.namespace)
        return [each.metadata.name for each in found.items]


async def until(state: Callable[[], Any], expected: object) -> None:
    """Wait until the awaited state is the expected one."""
    async with asyncio.timeout(30):
        while await state() != expected:  # noqa: ASYNC110 - a cluster is polled
            await asyncio.sleep(0.02)


async def test_a_website_gets_a_deployment_whose_pods_become_ready(
    websites: Websites,
) -> None:
    """The pods are those of real controllers; they go with the website."""
    await websites.create("shop", image="nginx", replicas=2)
    await until(lambda: websites.ready("shop"), 2)
    await websites.change("shop", replicas=3)
    await until(lambda: websites.ready("shop"), 3)
    await websites.delete("shop")
    await until(websites.deployments, [])


async def test_a_request_that_is_refused_is_repeated(
    websites: Websites, faults: "Faults"
) -> None:
    """The handler fails, and kopf calls it again."""
    fault = faults.refuse(503, times=1, verbs="create", resource="deployments")
    await websites.create("shop", image="nginx")
    await until(lambda: websites.ready("shop"), 1)
    assert fault.count == 1


@pytest.mark.parametrize("how", ["drop_watches", "expire_watches", "restart"])
async def test_changes_are_seen_after_a_watch_has_ended(
    websites: Websites, faults: "Faults", how: str
) -> None:
    """It does so after a cut connection, a lost history and a restart of the server."""
    await websites.create("first", image="nginx")
    await until(lambda: websites.ready("first"), 1)
    getattr(faults, how)()
    await websites.create("shop", image="nginx")
    await until(lambda: websites.ready("shop"), 1)
