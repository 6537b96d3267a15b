"""A user's script for each client library: ``play.py CLIENT KUBECONFIG``.

It requests the version, lists the nodes, creates and deletes a config map, and
prints the results. It runs as a process of its own, because not every client
closes its connections before its event loop ends.
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from typing import Any

import kr8s.asyncio
import kubernetes
import kubernetes_asyncio
import pykube

JSON = dict[str, Any]

CONFIG_MAP: JSON = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "made", "namespace": "default"},
}


def names_of(objects: Iterable[Any]) -> list[str]:
    return [each.metadata.name for each in objects]


def with_kubernetes(kubeconfig: str) -> JSON:
    """Run with the official client, whose models require every field of nodeInfo."""
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
        kubeconfig, client_configuration=configuration
    )
    with kubernetes.client.ApiClient(configuration) as client:
        core = kubernetes.client.CoreV1Api(client)
        metadata = kubernetes.client.V1ObjectMeta(name="made")
        made = kubernetes.client.V1ConfigMap(metadata=metadata)
        core.create_namespaced_config_map("default", made)
        options = kubernetes.client.V1DeleteOptions()
        core.delete_namespaced_config_map("made", "default", body=options)
        left = core.list_namespaced_config_map("default").items
        return {
            "version": kubernetes.client.VersionApi(client).get_code().git_version,
            "nodes": names_of(core.list_node().items),
            "left": names_of(left),
        }


async def with_kubernetes_asyncio(kubeconfig: str) -> JSON:
    """Run with kubernetes_asyncio, whose models require the same."""
    client = await kubernetes_asyncio.config.new_client_from_config(kubeconfig)
    async with client:
        core = kubernetes_asyncio.client.CoreV1Api(client)
        metadata = kubernetes_asyncio.client.V1ObjectMeta(name="made")
        made = kubernetes_asyncio.client.V1ConfigMap(metadata=metadata)
        await core.create_namespaced_config_map("default", made)
        await core.delete_namespaced_config_map("made", "default")
        left = (await core.list_namespaced_config_map("default")).items
        version = await kubernetes_asyncio.client.VersionApi(client).get_code()
        return {
            "version": version.git_version,
            "nodes": names_of((await core.list_node()).items),
            "left": names_of(left),
        }


async def with_kr8s(kubeconfig: str) -> JSON:
    """Run with kr8s, which requests ``/version/`` first."""
    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    made = await kr8s.asyncio.objects.ConfigMap(CONFIG_MAP, api=api)
    await made.create()
    await made.delete()
    found = api.get("configmaps", namespace="default")
    return {
        "version": (await api.version())["gitVersion"],
        "nodes": names_of([each async for each in api.get("nodes")]),
        "left": names_of([each async for each in found]),
    }


def with_pykube(kubeconfig: str) -> JSON:
    """Run with pykube-ng, which requests ``/version/`` as well."""
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(kubeconfig))
    made = pykube.ConfigMap(api, CONFIG_MAP)
    made.create()
    made.delete()
    found = pykube.ConfigMap.objects(api, namespace="default")
    return {
        "version": api.get(version="", base="/version").json()["gitVersion"],
        "nodes": [each.name for each in pykube.Node.objects(api)],
        "left": [each.name for each in found],
    }


PLAYS = {
    "kubernetes": with_kubernetes,
    "kubernetes_asyncio": lambda path: asyncio.run(with_kubernetes_asyncio(path)),
    "kr8s": lambda path: asyncio.run(with_kr8s(path)),
    "pykube": with_pykube,
}


if __name__ == "__main__":
    client, path = sys.argv[1:]
    json.dump(PLAYS[client](path), sys.stdout)
