"""A cluster in a thread of its own."""

import asyncio
import gc
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client

from controller_manager.clock import SystemClock
from controller_manager.devcluster.testing import (
    ClusterError,
    ClusterSettings,
    DevelopmentCluster,
)
from controller_manager.devcluster.testing.faults import run_cluster
from controller_manager.manager import caches
from tests.devcluster.manifests import DEFINITION, NAMESPACE, POD, WIDGET
from tests.devcluster.rows import rows
from tests.devcluster.testing.calls import Caller
from tests.devcluster.testing.test_faults import wait_until
from tests.manager.test_waiting_controllers import build_with_widgets

BARE = ClusterSettings(nodes=0, controllers=())
FAST = ClusterSettings(
    nodes=1,
    time_factor=100,
    controllers=(
        "deployment-controller",
        "replicaset-controller",
        "serviceaccount-controller",
        "root-ca-certificate-publisher-controller",
    ),
)
LABELS = {"app": "web"}
DEPLOYMENT = {
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    }
}


@pytest.fixture(scope="module")
def fast() -> Iterator[DevelopmentCluster]:
    with DevelopmentCluster(FAST) as cluster:
        yield cluster


async def test_the_objects_of_manifests_exist_before_the_controllers_start(
    tmp_path: Path,
) -> None:
    """So a controller of a custom resource does not wait; a pod gets its account."""
    for number, text in enumerate((WIDGET, POD, DEFINITION, NAMESPACE)):
        (tmp_path / f"{number}.yaml").write_text(text)
    settings = ClusterSettings(
        manifests=(tmp_path,),
        controllers=(
            "root-ca-certificate-publisher-controller",
            "serviceaccount-controller",
            "widget-controller",
        ),
    )
    async with run_cluster(settings, build_with_widgets()) as running:
        assert "widget-controller" in running.controllers
        objects = running.cluster.server.storage
        pod = objects.collection("pods").get(("team", "a"))
        assert pod is not None
        assert pod.obj["spec"]["serviceAccountName"] == "default"
        assert objects.collection("widgets.example.com").get(("team", "a"))


def test_nothing_is_left_of_a_cluster_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector = list[str]()
    monkeypatch.setattr(caches, "gc", gc)  # as outside of tests
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, partial(collector.append, name))
    threads = threading.active_count()
    controllers = ("replicaset-controller",)
    with DevelopmentCluster(ClusterSettings(controllers=controllers)) as cluster:
        kubeconfig = cluster.kubeconfig
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        assert Caller(kubeconfig).names("/api/v1/nodes") == [
            "node-0",
            "node-1",
            "node-2",
        ]
    assert not kubeconfig.parent.exists()
    assert threading.active_count() == threads
    assert collector == ["freeze", "unfreeze"]


async def test_it_does_not_block_the_event_loop_of_its_user() -> None:
    """It is entered by ``async with``, and so are its namespaces."""
    others = asyncio.Event()
    asyncio.get_running_loop().call_soon(others.set)
    async with DevelopmentCluster(BARE) as cluster, cluster.namespace("mine") as name:
        assert others.is_set()
        assert name.startswith("mine-")
        names = await asyncio.to_thread(
            Caller(cluster.kubeconfig).names, "/api/v1/namespaces"
        )
        assert name in names


def test_two_clusters_know_nothing_of_each_other() -> None:
    with (
        DevelopmentCluster(BARE) as one,
        DevelopmentCluster(BARE) as other,
        one.namespace() as name,
    ):
        assert name in Caller(one.kubeconfig).names("/api/v1/namespaces")
        assert name not in Caller(other.kubeconfig).names("/api/v1/namespaces")


def test_it_can_be_started_again_and_not_twice() -> None:
    cluster = DevelopmentCluster(BARE)
    with cluster, pytest.raises(RuntimeError, match="is running already"):
        cluster.start()
    with cluster:
        assert Caller(cluster.kubeconfig).get("/version").status == 200
    cluster.stop()
    with pytest.raises(RuntimeError, match="is not running; enter it with 'with'"):
        cluster.kubeconfig  # noqa: B018 - the property raises


def test_a_program_finds_the_cluster_in_its_environment() -> None:
    with DevelopmentCluster(BARE) as cluster:
        expected = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        assert cluster.environment() == expected


def test_a_client_that_stays_connected_leaves_nothing_behind() -> None:
    """A transport that is not closed would warn."""
    with DevelopmentCluster(BARE) as cluster:
        caller = Caller(cluster.kubeconfig)
        connection = caller.connection(timeout=10)
        connection.request("GET", "/version")
        connection.getresponse().read()
    gc.collect()
    connection.close()


async def test_a_test_has_a_client_of_kubernetes_asyncio() -> None:
    settings = ClusterSettings(nodes=0, controllers=(), rbac=True)
    async with (
        DevelopmentCluster(settings) as cluster,
        cluster.namespace("shop") as namespace,
        cluster.api_client() as api,
    ):
        core: Any = client.CoreV1Api(api)
        account = {"metadata": {"name": "operator"}}
        await core.create_namespaced_service_account(namespace, account)
        found = await core.read_namespaced_service_account("operator", namespace)
        assert found.metadata.name == "operator"
        with pytest.raises(ClusterError) as raised:
            cluster.account_kubeconfig(namespace, "nobody")
        async with cluster.api_client(namespace, "operator") as operator:
            core = client.CoreV1Api(operator)
            with pytest.raises(client.ApiException) as refusal:
                await core.read_namespaced_service_account("operator", namespace)
    assert str(raised.value) == (
        f"there is no service account 'nobody' in the namespace '{namespace}'"
    )
    user = f"system:serviceaccount:{namespace}:operator"
    assert json.loads(str(refusal.value.body))["message"] == (
        f'serviceaccounts "operator" is forbidden: User "{user}" cannot get resource '
        f'"serviceaccounts" in API group "" in the namespace "{namespace}"'
    )


def test_a_namespace_goes_with_all_that_is_in_it(fast: DevelopmentCluster) -> None:
    """Also objects with finalizers or slow ends; other namespaces do not change."""
    caller = Caller(fast.kubeconfig)
    with fast.namespace() as other, fast.namespace() as name:
        maps = f"/api/v1/namespaces/{name}/configmaps"
        assert caller.names(maps) == ["kube-root-ca.crt"]
        assert caller.names(f"/api/v1/namespaces/{name}/serviceaccounts") == ["default"]
        metadata = {"name": "held", "finalizers": ["example.com/held"]}
        caller.add("ConfigMap", maps, "held", metadata=metadata)
        caller.add(
            "Deployment",
            f"/apis/apps/v1/namespaces/{name}/deployments",
            "web",
            **DEPLOYMENT,
        )
        wait_until(lambda: len(caller.names("/api/v1/pods")) == 2)
    assert other not in caller.names("/api/v1/namespaces")
    assert caller.names("/api/v1/pods") == []
    assert caller.names("/apis/apps/v1/deployments") == []
    assert "held" not in caller.names("/api/v1/configmaps")
    with fast.namespace() as name:
        assert caller.send("DELETE", f"/api/v1/namespaces/{name}").status == 200


def test_time_passes_faster_by_the_factor(fast: DevelopmentCluster) -> None:
    caller = Caller(fast.kubeconfig)
    with fast.namespace() as name:
        pods = f"/api/v1/namespaces/{name}/pods"
        deployments = f"/apis/apps/v1/namespaces/{name}/deployments"
        caller.add("Deployment", deployments, "web", **DEPLOYMENT)

        def ready() -> int:
            status = caller.get(f"{deployments}/web").body.get("status", {})
            count: int = status.get("readyReplicas", 0)
            return count

        wait_until(lambda: ready() == 2)
        before = caller.names(pods)
        assert caller.send("DELETE", f"{pods}/{before[0]}").status == 200
        wait_until(lambda: before[0] not in caller.names(pods) and ready() == 2)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/apis", 200),
        ("POST", "/apis", 405),
        ("GET", "/api/v1/nodes?watch=true&timeoutSeconds=1", 200),
        ("HEAD", "/api/v1/nodes", 405),
        ("HEAD", "/api/v1/nodes?watch=true", 405),
    ],
)
def test_no_answer_of_a_fast_cluster_is_from_the_future(
    fast: DevelopmentCluster, method: str, path: str, status: int
) -> None:
    """Of no sort: kubectl would keep an old list of resources until its date."""
    caller = Caller(fast.kubeconfig)
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0"

    def cluster_time() -> float:
        renewed: str = caller.get(lease).body["spec"]["renewTime"]
        return datetime.fromisoformat(renewed).timestamp()

    def own_time() -> float:
        return SystemClock().now().timestamp()

    wait_until(lambda: cluster_time() > own_time() + 20)
    connection = caller.connection(10)
    connection.request(method, path, headers=caller.headers("tests"))
    answer = connection.getresponse()
    connection.close()
    assert answer.status == status
    assert (answer.headers["last-modified"], answer.headers["expires"]) == (None, None)
    date = parsedate_to_datetime(answer.headers["date"]).timestamp()
    assert own_time() - 10 < date <= own_time()


def test_faults_do_not_meet_the_controllers_of_the_cluster(
    fast: DevelopmentCluster,
) -> None:
    caller = Caller(fast.kubeconfig)
    with fast.namespace() as name:
        deployments = f"/apis/apps/v1/namespaces/{name}/deployments"
        with fast.faults.refuse(500, verbs=("update", "patch", "watch")):
            caller.add("Deployment", deployments, "web", **DEPLOYMENT)
            wait_until(
                lambda: (
                    caller.get(f"{deployments}/web")
                    .body.get("status", {})
                    .get("readyReplicas")
                    == 2
                )
            )


def test_the_seconds_of_faults_are_those_of_the_client(
    fast: DevelopmentCluster,
) -> None:
    caller = Caller(fast.kubeconfig)
    with fast.faults.latency(0.2):
        began = time.monotonic()
        caller.get("/version")
        assert 0.19 < time.monotonic() - began < 5


def test_the_handshake_of_a_client_may_take_its_time(fast: DevelopmentCluster) -> None:
    """More than a minute of the cluster passes before the client says anything."""
    address = ("127.0.0.1", int(fast.url.rpartition(":")[2]))
    with (
        socket.create_connection(address, timeout=0.9) as silent,
        pytest.raises(TimeoutError),
    ):
        silent.recv(1)


def test_a_name_that_cannot_be_a_namespace_is_refused(fast: DevelopmentCluster) -> None:
    with pytest.raises(ClusterError, match=r'Namespace "Shop-.*" is invalid'):
        fast.namespace("Shop").__enter__()


@rows("settings", "message")
def test_a_setting_that_cannot_be_used_is_named(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClusterError) as raised:
        ClusterSettings(**settings)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ClusterSettings(controllers=("deployments",)), '"deployments"'),
        (ClusterSettings(feature_gates=("AllAlpha=maybe",)), "maybe"),
        (
            ClusterSettings(manifests=("absent.yaml",)),
            "manifest absent.yaml: No such file or directory",
        ),
        (
            ClusterSettings(enable_admission_plugins=("Nope",)),
            'enable-admission-plugins plugin "Nope" is unknown',
        ),
    ],
)
def test_a_missing_object_is_named_in_one_line(
    settings: ClusterSettings, message: str
) -> None:
    cluster = DevelopmentCluster(settings)
    with pytest.raises(ClusterError, match=message) as raised:
        cluster.start()
    assert "\n" not in str(raised.value)
    cluster.stop()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster = DevelopmentCluster(ClusterSettings(port=port))
        with pytest.raises(ClusterError) as raised:
            cluster.start()
    assert str(raised.value) == (
        f"cannot serve on 127.0.0.1:{port}: the port is in use; choose another port, "
        "or 0 for a free one"
    )
