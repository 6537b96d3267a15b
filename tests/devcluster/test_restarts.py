"""A cluster that is started again, and one whose state is restored."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controller_manager.devcluster.snapshot import DataFile
from controller_manager.devcluster.storage import StorageState
from controller_manager.devcluster.testing import (
    ClusterError,
    ClusterSettings,
    DevelopmentCluster,
    Snapshot,
)
from tests.devcluster.rows import parsed
from tests.devcluster.testing.calls import Caller
from tests.devcluster.testing.test_faults import wait_until

DEFINITION = parsed("""
    spec:
      group: example.com
      names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
      scope: Namespaced
      versions:
        - name: v1
          served: true
          storage: true
          schema: {openAPIV3Schema: {type: object}}""")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
SNAPSHOT = "/devcluster/snapshot"


def settings(data: Path | None = None, **more: Any) -> ClusterSettings:
    return ClusterSettings(nodes=1, controllers=(), data=data, **more)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevelopmentCluster]:
    with DevelopmentCluster(settings(rbac=True)) as made:
        yield made


def everything(caller: Caller) -> list[Any]:
    """Return the objects of the API server, without the heartbeats of nodes."""
    text = raw_snapshot(caller)
    objects = [json.loads(each) for each in text.splitlines()[1:]]
    return [each for each in objects if each["resource"] not in ("nodes", LEASES)]


LEASES = "leases.coordination.k8s.io"


def raw_snapshot(caller: Caller) -> bytes:
    connection = caller.connection(10)
    connection.request("GET", SNAPSHOT, headers=caller.headers("tests"))
    answer = connection.getresponse()
    assert (answer.status, answer.headers["content-type"]) == (
        200,
        "application/x-ndjson",
    )
    text = answer.read()
    connection.close()
    return text


def add_definition(caller: Caller) -> None:
    body = {"metadata": {"name": "widgets.example.com"}, **DEFINITION}
    assert caller.send("POST", DEFINITIONS, body).status == 201


def test_a_cluster_that_is_started_again_is_the_same(tmp_path: Path) -> None:
    data, old = tmp_path / "data", tmp_path / "kubeconfig"
    with DevelopmentCluster(settings(data)) as cluster:
        caller = Caller(cluster.kubeconfig)
        old.write_text(cluster.kubeconfig.read_text())
        add_definition(caller)
        widget = {"metadata": {"name": "w"}, "size": 3}
        assert caller.send("POST", WIDGETS, widget).status == 201
        ports = {"ports": [{"port": 80}], "type": "NodePort"}
        service = caller.add("Service", SERVICES, "web", spec=ports).body
        made = caller.add("ConfigMap", MAPS, "a").body["metadata"]
        early = int(made["resourceVersion"]) - 1
        before = everything(caller)
    with DevelopmentCluster(settings(data)) as cluster:
        caller = Caller(old)
        assert everything(caller) == before
        assert caller.get(f"{SERVICES}/web").body == service
        with caller.watch(f"{MAPS}?resourceVersion={early}") as events:
            assert next(events)["object"]["code"] == 410
        version = caller.get(MAPS).body["metadata"]["resourceVersion"]
        with caller.watch(f"{MAPS}?resourceVersion={version}") as events:
            created = caller.add("ConfigMap", MAPS, "b").body
            assert next(events) == {"type": "ADDED", "object": created}
        assert int(created["metadata"]["resourceVersion"]) > int(version) >= early
        other = caller.add("Service", SERVICES, "other", spec=ports).body["spec"]
        assert other["clusterIP"] != service["spec"]["clusterIP"]
        assert other["ports"][0]["nodePort"] != service["spec"]["ports"][0]["nodePort"]
        with pytest.raises(ClusterError, match="is in use by another development"):
            DevelopmentCluster(settings(data)).start()


def test_a_restored_cluster_is_as_it_was(cluster: DevelopmentCluster) -> None:
    """Watches end with 410, or go on; kinds come and go with their definitions."""
    caller, empty = Caller(cluster.kubeconfig), cluster.snapshot()
    kept = caller.add("ConfigMap", MAPS, "kept").body
    add_definition(caller)
    widget = caller.send("POST", WIDGETS, {"metadata": {"name": "w"}, "size": 3}).body
    state = cluster.snapshot()
    caller.send("DELETE", f"{DEFINITIONS}/widgets.example.com")
    assert caller.get(WIDGETS).status == 404
    caller.add("ConfigMap", MAPS, "added")
    with caller.watch(f"{MAPS}?resourceVersion=0") as events:
        assert [next(events)["type"] for _ in range(2)] == ["ADDED", "ADDED"]
        cluster.restore(state, ends_watches=True)
        assert [each["object"]["code"] for each in events] == [410]
    assert caller.get(f"{MAPS}/kept").body == kept
    assert caller.get(f"{MAPS}/added").status == 404
    again = caller.get(f"{WIDGETS}/w").body
    version = again["metadata"].pop("resourceVersion")
    assert int(version) > int(widget["metadata"].pop("resourceVersion"))
    assert again == widget
    now = caller.get(MAPS).body["metadata"]["resourceVersion"]
    with caller.watch(f"{MAPS}?resourceVersion={now}") as events:
        cluster.restore(empty)
        event = next(events)
        assert (event["type"], event["object"]["metadata"]["name"]) == (
            "DELETED",
            "kept",
        )
    assert caller.names(MAPS) == []
    assert caller.get(WIDGETS).status == 404


def test_a_snapshot_can_be_written_and_read(
    cluster: DevelopmentCluster, tmp_path: Path
) -> None:
    caller, path = Caller(cluster.kubeconfig), tmp_path / "snapshot"
    before = cluster.snapshot()
    made = caller.add("ConfigMap", MAPS, "a").body
    cluster.snapshot().write(path)
    text = raw_snapshot(caller)
    cluster.restore(before)
    cluster.restore(Snapshot.read(path))
    assert caller.get(f"{MAPS}/a").body["metadata"]["uid"] == made["metadata"]["uid"]
    cluster.restore(before)
    answer = send_text(caller, text)
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"objects": len(text.splitlines()) - 1},
    }
    assert caller.names(MAPS) == ["a"]
    cluster.restore(before)
    with pytest.raises(ClusterError, match="missing: cannot be read"):
        Snapshot.read(tmp_path / "missing")


def send_text(caller: Caller, text: bytes, path: str = SNAPSHOT) -> Any:
    connection = caller.connection(10)
    connection.request("PUT", path, text, caller.headers("tests"))
    body = json.loads(connection.getresponse().read())
    connection.close()
    return body


def test_a_snapshot_that_cannot_be_restored_changes_nothing(
    cluster: DevelopmentCluster,
) -> None:
    caller = Caller(cluster.kubeconfig)
    before = raw_snapshot(caller)
    answer = send_text(caller, b"\n".join(before.splitlines()[:-1]))
    assert (answer["code"], answer["reason"]) == (400, "BadRequest")
    assert "a part of it is missing" in answer["message"]
    answer = send_text(caller, before, f"{SNAPSHOT}?watches=end")
    assert answer["message"] == 'watches must be "keep", or absent, not "end"'
    assert caller.send("POST", SNAPSHOT, {}).reason == (405, "MethodNotAllowed")
    assert everything(caller) == [
        each
        for each in map(json.loads, before.splitlines()[1:])
        if each["resource"] not in ("nodes", LEASES)
    ]


def test_only_the_administrator_may_take_and_restore(
    cluster: DevelopmentCluster,
) -> None:
    caller, before = Caller(cluster.kubeconfig), cluster.snapshot()
    caller.add("ServiceAccount", "/api/v1/namespaces/default/serviceaccounts", "robot")
    account = Caller(cluster.account_kubeconfig("default", "robot"))
    assert account.get(SNAPSHOT).reason == (403, "Forbidden")
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject],
    }
    caller.send("POST", f"/apis/{group}/v1/clusterrolebindings", binding)
    assert account.get(MAPS).status == 200
    for method in ("GET", "PUT"):
        answer = account.send(method, SNAPSHOT)
        assert answer.reason == (403, "Forbidden")
        assert answer.body["message"] == (
            'forbidden: User "system:serviceaccount:default:robot" cannot use path '
            '"/devcluster/snapshot": only members of system:masters may'
        )
    cluster.restore(before)


def test_the_time_of_a_cluster_continues(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with DataFile.open(data) as file:
        now = datetime.now(UTC) + timedelta(days=1)
        file.write(StorageState(1, {}, {}), now, is_final=True)
    for _ in range(2):
        with DevelopmentCluster(settings(data)) as cluster:
            caller = Caller(cluster.kubeconfig)
            made = caller.send("POST", MAPS, {"metadata": {"generateName": "a"}}).body
            created = datetime.fromisoformat(made["metadata"]["creationTimestamp"])
        assert timedelta(seconds=-1) < created - now < timedelta(minutes=5)
        now = created


@pytest.mark.slow
def test_running_pods_continue_after_a_restart(tmp_path: Path) -> None:
    settings = ClusterSettings(nodes=1, data=tmp_path / "data", grace_scale=0)
    with DevelopmentCluster(settings) as cluster:
        caller = Caller(cluster.kubeconfig)
        once = pod_template(["sleep", "1"], restartPolicy="Never")
        add(caller, JOBS, "slow", spec={"template": once})
        add(caller, PODS, "once", **once)
        add(caller, PODS, "crash", **pod_template(["false"]))
        labels = {"app": "web"}
        web = {"metadata": {"labels": labels}, **pod_template([])}
        spec = {"selector": {"matchLabels": labels}, "template": web, "replicas": 2}
        add(caller, DEPLOYMENTS, "web", spec=spec)
        wait_until(lambda: status(caller, f"{JOBS}/slow").get("active") == 1)
        for name in ("crash", "once"):
            wait_until(lambda: status(caller, f"{PODS}/{name}")["phase"] == "Running")  # noqa: B023
        account = f"{SERVICES.replace('services', 'serviceaccounts')}/default/token"
        token = caller.send("POST", account, {"spec": {}}).body["status"]["token"]
        running = cluster.snapshot()
    with DevelopmentCluster(settings) as cluster:
        caller = Caller(cluster.kubeconfig)
        wait_until(lambda: status(caller, f"{JOBS}/slow").get("succeeded") == 1)
        wait_until(lambda: status(caller, f"{DEPLOYMENTS}/web")["readyReplicas"] == 2)
        wait_until(lambda: restarts(caller) > 0)
        wait_until(lambda: status(caller, f"{PODS}/once")["phase"] == "Succeeded")
        delete_job(caller)
        cluster.restore(running)
        wait_until(lambda: status(caller, f"{PODS}/once")["phase"] == "Succeeded")
        wait_until(lambda: status(caller, f"{JOBS}/slow").get("succeeded") == 1)
        caller._token = token
        assert caller.get(PODS).status == 200


JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def delete_job(caller: Caller) -> None:
    now = {"propagationPolicy": "Background"}
    assert caller.send("DELETE", f"{JOBS}/slow", now).status == 200
    wait_until(lambda: not any(name.startswith("slow") for name in caller.names(PODS)))


def add(caller: Caller, path: str, name: str, **parts: Any) -> None:
    answer = caller.send("POST", path, {"metadata": {"name": name}, **parts})
    assert answer.status == 201, answer


def pod_template(command: list[str], **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "app:v1", "command": command}
    return {"spec": {"containers": [container], **more}}


def status(caller: Caller, path: str) -> dict[str, Any]:
    found: dict[str, Any] = caller.get(path).body.get("status", {})
    return found


def restarts(caller: Caller) -> int:
    (container,) = status(caller, f"{PODS}/crash")["containerStatuses"]
    count: int = container["restartCount"]
    return count
