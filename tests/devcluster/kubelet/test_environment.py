"""Containers print their variables, as a kubelet makes them."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kubelet.node_status import pod_address
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import DEFAULT, PODS, create_pod, send
from tests.devcluster.kubelet.test_logs import log
from tests.devcluster.rows import parsed

pytestmark = pytest.mark.looptime


def busybox(*command: str, **more: Any) -> JSON:
    return {"name": "c", "image": "busybox", "command": [*command], **more}


async def printed(cluster: Cluster, container: JSON, **spec: Any) -> list[str]:
    """Return the lines that a container prints, which then ends with code 0."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster, "p", restartPolicy="Never", containers=[container], **spec
        )
        await asyncio.sleep(1)
        status, text = await log(cluster, "p")
        assert status == 200, text
        pod = await send(cluster, "GET", f"{PODS}/p")
        assert pod["status"]["phase"] == "Succeeded", pod["status"]
    return text.splitlines()


@pytest.mark.parametrize("command", [["env"], ["printenv"], ["sh", "-c", "env"]])
async def test_env_prints_the_variables_of_objects(
    cluster: Cluster, command: list[str]
) -> None:
    """A later variable may refer to an earlier one; missing optional ones are left."""
    config = {"metadata": {"name": "m"}, "data": {"a": "1", "b": "x\ny"}}
    await send(cluster, "POST", f"{DEFAULT}/configmaps", config)
    secret = {"metadata": {"name": "s"}, "stringData": {"k": "hidden"}}
    await send(cluster, "POST", f"{DEFAULT}/secrets", secret)
    env = parsed("""
        - {name: A, value: one}
        - {name: K, valueFrom: {secretKeyRef: {name: s, key: k}}}
        - name: NONE
          valueFrom: {configMapKeyRef: {name: m, key: z, optional: true}}
        - {name: ALL, value: $(A);;$(K) $(LATER) $$(A)}
        - {name: LATER, value: $(m_a)}""")
    sources = [
        {"prefix": "m_", "configMapRef": {"name": "m"}},
        {"secretRef": {"name": "gone", "optional": True}},
    ]
    container = busybox(*command, env=env, envFrom=sources)
    lines = await printed(cluster, container)
    assert "HOSTNAME=p" in lines
    start = lines.index("m_a=1")
    assert lines[start:] == [
        *("m_a=1", "m_b=x", "y", "A=one", "K=hidden"),
        *("ALL=one;;hidden $(LATER) $(A)", "LATER=1"),
    ]


async def test_env_prints_the_fields_and_the_resources_of_a_pod(
    cluster: Cluster,
) -> None:
    """Without a limit of its own, a container may use what its node has."""
    fields = {
        "NAME": "metadata.name",
        "POD_IP": "status.podIP",
        "POD_IPS": "status.podIPs",
        "HOST_IP": "status.hostIP",
    }
    resources = {
        "CPU": ("limits.cpu", "0"),
        "MILLI": ("limits.cpu", "1m"),
        "MEMORY": ("limits.memory", "1Mi"),
        "OF_NODE": ("limits.ephemeral-storage", "1"),
        "REQUEST": ("requests.cpu", "0"),
    }
    env: list[JSON] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]
    for name, (resource, divisor) in resources.items():
        reference = {"resource": resource, "divisor": divisor}
        env.append({"name": name, "valueFrom": {"resourceFieldRef": reference}})
    limits = {"limits": {"cpu": "1250m", "memory": "64Mi"}}
    lines = await printed(cluster, busybox("env", env=env, resources=limits))
    pod = await send(cluster, "GET", f"{PODS}/p")
    address = pod_address(pod)
    own = ("NAME", "POD", "HOST_IP", "CPU", "MILLI", "MEMORY", "REQUEST")
    assert [each for each in lines if each.startswith(own)] == [
        "NAME=p",
        f"POD_IP={address}",
        f"POD_IPS={address}",
        f"HOST_IP={pod['status']['hostIP']}",
        *("CPU=2", "MILLI=1250", "MEMORY=64", "REQUEST=2"),
    ]
    assert any(each.startswith("OF_NODE=1") for each in lines)


async def test_env_prints_the_services_of_the_namespace(cluster: Cluster) -> None:
    ports = [
        {"port": 8765, "name": "web"},
        {"port": 53, "name": "d", "protocol": "UDP"},
    ]
    service = {
        "metadata": {"name": "foo-bar"},
        "spec": {"ports": ports, "clusterIP": "10.96.0.77"},
    }
    await send(cluster, "POST", f"{DEFAULT}/services", service)
    lines = await printed(cluster, busybox("env"))
    assert [each for each in lines if each.startswith("FOO_BAR")] == [
        "FOO_BAR_SERVICE_HOST=10.96.0.77",
        "FOO_BAR_SERVICE_PORT=8765",
        "FOO_BAR_SERVICE_PORT_WEB=8765",
        "FOO_BAR_SERVICE_PORT_D=53",
        "FOO_BAR_PORT=tcp://10.96.0.77:8765",
        "FOO_BAR_PORT_8765_TCP=tcp://10.96.0.77:8765",
        "FOO_BAR_PORT_8765_TCP_PROTO=tcp",
        "FOO_BAR_PORT_8765_TCP_PORT=8765",
        "FOO_BAR_PORT_8765_TCP_ADDR=10.96.0.77",
        "FOO_BAR_PORT_53_UDP=udp://10.96.0.77:53",
        "FOO_BAR_PORT_53_UDP_PROTO=udp",
        "FOO_BAR_PORT_53_UDP_PORT=53",
        "FOO_BAR_PORT_53_UDP_ADDR=10.96.0.77",
    ]


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (["sh", "-c", 'A=wrong echo "$(A)"'], ["a value"]),
        (["echo", "$(A)", "$$(A)", "$(B)", "$(HOME)"], ["a value $(A) $(B) $(HOME)"]),
        (["sh", "-c", "B=new printenv B A; echo $HOSTNAME"], ["new", "a value", "p"]),
        (["sh", "-c", "test -d /whole/dir; echo $?"], ["0"]),
        (["sh", "-c", "test -d /whole/other; echo $?"], ["1"]),
        (["sh", "-c", '[[ "${D:?}" == "dir" ]] && echo OK || echo "no"'], ["OK"]),
    ],
)
async def test_a_command_has_the_values(
    cluster: Cluster, command: list[str], lines: list[str]
) -> None:
    """A reference to an unknown variable stays; a sub path is made in its volume."""
    env = [{"name": "A", "value": "a value"}, {"name": "D", "value": "dir"}]
    mounts = [
        {"name": "v", "mountPath": "/part", "subPathExpr": "$(D)"},
        {"name": "v", "mountPath": "/whole"},
    ]
    container = busybox(*command, env=env, volumeMounts=mounts)
    volumes = [{"name": "v", "emptyDir": {}}]
    assert await printed(cluster, container, volumes=volumes) == lines


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("/config/a", ["1"]),
        ("/config/sub/b", []),
        ("/secret/sub/k", ["hidden"]),
        ("/secret/k", []),
        ("/all/a", ["1"]),
        ("/all/k", ["hidden"]),
        ("/all/name", ["p"]),
        ("/info/labels", ['app="web"', 'tier="x"']),
        ("/info/cpu", ["2"]),
        ("/one", ["x", "y"]),
    ],
)
async def test_cat_prints_the_files_of_volumes(
    cluster: Cluster, path: str, lines: list[str]
) -> None:
    """Of config maps, secrets and fields of the pod; of others nothing is known."""
    config = {"metadata": {"name": "m"}, "data": {"a": "1", "b": "x\ny\n"}}
    await send(cluster, "POST", f"{DEFAULT}/configmaps", config)
    secret = {"metadata": {"name": "s"}, "stringData": {"k": "hidden"}}
    await send(cluster, "POST", f"{DEFAULT}/secrets", secret)
    name = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    cpu = {"containerName": "c", "resource": "limits.cpu"}
    sources = [
        {"configMap": {"name": "m"}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [name]}},
    ]
    items = [labels, {"path": "cpu", "resourceFieldRef": cpu}]
    volumes = [
        {"name": "config", "configMap": {"name": "m"}},
        {
            "name": "secret",
            "secret": {"secretName": "s", "items": [{"key": "k", "path": "sub/k"}]},
        },
        {"name": "all", "projected": {"sources": sources}},
        {"name": "info", "downwardAPI": {"items": items}},
    ]
    mounts = [
        {"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes
    ]
    mounts.append({"name": "config", "mountPath": "/one", "subPath": "b"})
    limits = {"limits": {"cpu": "1250m"}}
    pod = {
        "metadata": {"name": "p", "labels": {"tier": "x", "app": "web"}},
        "spec": {
            "restartPolicy": "Never",
            "volumes": volumes,
            "containers": [busybox("cat", path, volumeMounts=mounts, resources=limits)],
        },
    }
    async with cluster.nodes(count=1, start_delay=0):
        await send(cluster, "POST", PODS, pod)
        await asyncio.sleep(1)
        assert (await log(cluster, "p"))[1].splitlines() == lines
