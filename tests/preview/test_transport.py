"""A preview answers each verb as an API server would, and writes nothing."""

import asyncio
import io
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES, PODS, ConfigMap
from controller_manager.api.meta import ObjectMeta, metadata_of
from controller_manager.client.events.recorder import EventBroadcaster
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import (
    Client,
    DeleteOptions,
    PatchType,
    PropagationPolicy,
)
from controller_manager.client.rest.transport import Request
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.config import PreviewConfig
from controller_manager.preview.preview import Preview
from controller_manager.preview.target import find_target
from tests.clusters import Cluster
from tests.controllers.builders import deployment_json
from tests.preview.shadow import Witness

pytestmark = pytest.mark.looptime

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@dataclass
class Previewed:
    """A client of a preview, and the requests that reach the server."""

    preview: Preview
    client: Client
    witness: Witness

    async def create(self, obj: dict[str, Any]) -> Any:
        body = msgspec.json.encode(obj)
        return await self.client.create_json(PODS, "default", body)

    async def names(self) -> list[str]:
        page = await self.client.list_page(PODS, "default")
        return sorted(each.metadata.name for each in page.items)


def _previewed(cluster: Cluster, **settings: Any) -> Previewed:
    return previewed_cluster(cluster, Witness(cluster.transport), **settings)


def previewed_cluster(cluster: Cluster, witness: Witness, **settings: Any) -> Previewed:
    preview = Preview(
        PreviewConfig(**settings),
        witness,
        clock=cluster.clock,
        rng=random.Random(1),
        registry=CollectorRegistry(),
        logger=silent_logger(),
    )
    client = Client(preview.transport("tested-controller"), cluster.clock)
    return Previewed(preview, client, witness)


@pytest_asyncio.fixture
async def previewed(cluster: Cluster) -> AsyncGenerator[Previewed, None]:
    """Return a preview of the cluster; nothing may have been written at the end."""
    found = _previewed(cluster)
    yield found
    assert found.witness.writes == []


async def test_a_created_object_is_there_for_reads_only_of_the_preview(
    cluster: Cluster, previewed: Previewed
) -> None:
    made = await previewed.create(POD)
    assert (made.metadata.name, made.status.phase) == ("a", "Pending")
    assert made.metadata.uid
    assert made.metadata.creation_timestamp
    again = await previewed.client.get(PODS, "default", "a")
    assert again.metadata.uid == made.metadata.uid
    assert await previewed.names() == ["a"]
    assert (await cluster.client.list_page(PODS, "default")).items == []
    with pytest.raises(errors.AlreadyExists):
        await previewed.create(POD)


async def test_generated_names_are_distinct(previewed: Previewed) -> None:
    for _ in range(20):
        await previewed.create({**POD, "metadata": {"generateName": "web-"}})
    names = await previewed.names()
    assert len(set(names)) == 20
    assert all(each.startswith("web-") and len(each) == 9 for each in names)


async def test_a_taken_name_is_refused(cluster: Cluster, previewed: Previewed) -> None:
    cluster.add("Pod", "a", spec=POD["spec"])
    with pytest.raises(errors.AlreadyExists):
        await previewed.create(POD)


async def test_a_patch_changes_the_view(cluster: Cluster, previewed: Previewed) -> None:
    cluster.add("ConfigMap", "a", data={"x": "1", "y": "2"})
    client = previewed.client
    where = CONFIG_MAPS, "default", "a"
    await client.patch(*where, {"data": {"x": "3", "y": None}}, PatchType.MERGE)
    operations = [{"op": "add", "path": "/data/z", "value": "4"}]
    await client.patch(*where, operations, PatchType.JSON)
    finalizers = {"metadata": {"finalizers": ["a.io/b"]}}
    await client.patch(*where, finalizers, PatchType.STRATEGIC)
    metadata = {"namespace": "default", "name": "a"}
    config = {"metadata": metadata, "data": {"w": "5"}}
    await client.apply(CONFIG_MAPS, config, "test")
    view = await client.get_json(*where)
    assert view["data"] == {"x": "3", "z": "4", "w": "5"}
    assert view["metadata"]["finalizers"] == ["a.io/b"]
    real = await cluster.client.get_json(*where)
    assert real["data"] == {"x": "1", "y": "2"}
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/b"]}}
    await client.patch(*where, gone, PatchType.STRATEGIC)
    view = await client.get_json(*where)
    assert not view["metadata"].get("finalizers")


async def test_an_old_version_conflicts(cluster: Cluster, previewed: Previewed) -> None:
    cluster.add("ConfigMap", "a", data={"x": "1"})
    client = previewed.client
    first = await client.get_json(CONFIG_MAPS, "default", "a")
    await client.update_json(CONFIG_MAPS, {**first, "data": {"x": "2"}})
    with pytest.raises(errors.Conflict):
        await client.update_json(CONFIG_MAPS, {**first, "data": {"x": "3"}})
    second = await client.get_json(CONFIG_MAPS, "default", "a")
    await client.update_json(CONFIG_MAPS, {**second, "data": {"x": "3"}})
    third = await client.get_json(CONFIG_MAPS, "default", "a")
    assert third["data"] == {"x": "3"}


async def test_a_status_and_a_scale_are_updated_on_their_own(
    cluster: Cluster, previewed: Previewed
) -> None:
    body = msgspec.json.encode(deployment_json(replicas=3))
    await cluster.client.create_json(DEPLOYMENTS, "default", body)
    client = previewed.client
    where = DEPLOYMENTS, "default", "web"
    patch = {"spec": {"replicas": 9}, "status": {"readyReplicas": 2}}
    await client.patch(*where, patch, PatchType.MERGE, "status")
    scale = await client.get_scale(*where)
    assert scale.spec.replicas == 3
    more = {"spec": {"replicas": 5}}
    await client.patch(*where, more, PatchType.MERGE, "scale")
    scale = await client.get_scale(*where)
    assert scale.spec.replicas == 5
    view = await client.get_json(*where)
    assert (view["spec"]["replicas"], view["status"]["readyReplicas"]) == (5, 2)
    assert view["metadata"]["generation"] == 2


async def test_no_change_no_new_version(cluster: Cluster, previewed: Previewed) -> None:
    cluster.add("ConfigMap", "a", data={"x": "1"})
    before = previewed.preview.overlay.changes.number
    patch = {"data": {"x": "1"}}
    await previewed.client.patch(CONFIG_MAPS, "default", "a", patch, PatchType.MERGE)
    assert previewed.preview.overlay.changes.number == before
    assert previewed.preview.report().pending == []


async def test_a_deleted_object_is_gone_unless_a_finalizer_holds_it(
    cluster: Cluster, previewed: Previewed
) -> None:
    cluster.add("ConfigMap", "a", data={})
    cluster.add("ConfigMap", "b", metadata={"name": "b", "finalizers": ["a.io/b"]})
    client = previewed.client
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIG_MAPS, "default", "a", DeleteOptions(uid="other"))
    for name in ("a", "b"):
        await client.delete(CONFIG_MAPS, "default", name)
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "default", "a")
    held = await client.get_json(CONFIG_MAPS, "default", "b")
    assert held["metadata"]["deletionTimestamp"]
    patch = {"metadata": {"finalizers": None}}
    await client.patch(CONFIG_MAPS, "default", "b", patch, PatchType.MERGE)
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "default", "b")
    assert len((await cluster.client.list_page(CONFIG_MAPS, "default")).items) == 2


async def test_a_policy_is_a_finalizer(cluster: Cluster, previewed: Previewed) -> None:
    cluster.add("ConfigMap", "a", data={})
    foreground = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
    await previewed.client.delete(CONFIG_MAPS, "default", "a", foreground)
    held = await previewed.client.get_json(CONFIG_MAPS, "default", "a")
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_all_objects_of_a_namespace_are_deleted_in_the_view(
    cluster: Cluster, previewed: Previewed
) -> None:
    cluster.add("Pod", "real", spec=POD["spec"])
    await previewed.create(POD)
    assert await previewed.names() == ["a", "real"]
    await previewed.client.delete_collection(PODS, "default")
    assert await previewed.names() == []


async def test_a_pod_is_evicted_and_bound_in_the_view(
    cluster: Cluster, previewed: Previewed
) -> None:
    for name in ("a", "b"):
        cluster.add("Pod", name, spec=POD["spec"])
    transport = previewed.preview.transport("tested-controller")
    body = {"kind": "Binding", "target": {"name": "node-1"}}
    path = "/api/v1/namespaces/default/pods"
    bound = Request("POST", f"{path}/a/binding", body=msgspec.json.encode(body))
    assert (await transport.request(bound)).status == 200
    evicted = Request("POST", f"{path}/b/eviction", body=b'{"kind":"Eviction"}')
    assert (await transport.request(evicted)).status == 200
    pod = await previewed.client.get(PODS, "default", "a")
    assert pod.spec.node_name == "node-1"
    assert await previewed.names() == ["a"]


async def test_a_namespace_is_finalized_in_the_view(
    cluster: Cluster, previewed: Previewed
) -> None:
    cluster.add_namespace("other")
    await previewed.client.delete(NAMESPACES, "", "other")
    held = await previewed.client.get_json(NAMESPACES, "", "other")
    assert held["status"]["phase"] == "Terminating"
    held["spec"] = {"finalizers": []}
    request = Request(
        "PUT", "/api/v1/namespaces/other/finalize", body=msgspec.json.encode(held)
    )
    transport = previewed.preview.transport("tested-controller")
    assert (await transport.request(request)).status == 200
    with pytest.raises(errors.NotFound):
        await previewed.client.get(NAMESPACES, "", "other")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/v1/namespaces/default/serviceaccounts/a/token", 403),
        ("POST", "/api/v1/namespaces/default/events", 201),
        ("PATCH", "/api/v1/namespaces/default/events/a", 404),
        ("POST", "/healthz", 405),
        ("PUT", "/apis/a/v1/things/a", 404),
        ("PATCH", "/api/v1/namespaces/default/pods/none", 404),
        ("DELETE", "/api/v1/namespaces/default/pods/none", 404),
        ("POST", "/api/v1/namespaces/default/pods/a/exec", 405),
    ],
)
async def test_no_other_request_reaches_the_server(
    previewed: Previewed, method: str, path: str, status: int
) -> None:
    transport = previewed.preview.transport("tested-controller")
    answer = await transport.request(Request(method, path, body=b"{}"))
    assert answer.status == status


async def test_repeated_events_are_fine(cluster: Cluster, previewed: Previewed) -> None:
    stream = io.StringIO()
    recorder = EventBroadcaster(
        previewed.client,
        "tested",
        clock=cluster.clock,
        rng=random.Random(1),
        logger=make_logger(stream=stream, verbosity=0),
    )
    pod = await previewed.create(POD)
    writing = asyncio.create_task(recorder.run())
    for _ in range(4):
        recorder.event(PODS, pod, "Warning", "Failed", "again")
        await recorder.flush()
    writing.cancel()
    assert stream.getvalue() == ""


async def test_a_dry_run_lets_admission_refuse(cluster: Cluster) -> None:
    found = _previewed(cluster, dry_run=True)
    cluster.add("ResourceQuota", "none", spec={"hard": {"pods": "0"}})
    await cluster.client.patch(
        PODS.__class__("", "v1", "resourcequotas", "ResourceQuota", PODS.type),
        "default",
        "none",
        {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}},
        PatchType.MERGE,
        "status",
    )
    with pytest.raises(errors.Forbidden, match="exceeded quota"):
        await found.create(POD)
    assert (found.witness.writes, found.witness.dry_runs) == ([], 1)


async def test_a_dry_run_asks_for_the_whole_object(cluster: Cluster) -> None:
    """The controller reads only its metadata; the overlay needs what admission adds."""
    found = _previewed(cluster, dry_run=True)
    body = msgspec.json.encode({**POD, "metadata": {"name": "web"}})
    await found.client.create_json(metadata_of(PODS), "default", body)
    pod = await found.client.get_json(PODS, "default", "web")
    assert [each["key"] for each in pod["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


async def test_a_full_memory_drops_the_oldest_writes(cluster: Cluster) -> None:
    found = _previewed(cluster, most_entries=5)
    for number in range(8):
        await found.create({**POD, "metadata": {"name": f"pod-{number}"}})
    assert await found.names() == [f"pod-{number}" for number in range(3, 8)]
    assert found.preview.report().dropped_writes == 3
    small = _previewed(cluster, most_bytes=10_000)
    for number in range(50):
        await small.create({**POD, "metadata": {"name": f"pod-{number}"}})
    report = small.preview.report()
    assert 0 < report.overlay_bytes <= 10_000
    assert report.dropped_writes + report.overlay_entries == 50


@pytest.mark.parametrize("is_back", [False, True])
async def test_a_namespace_whose_deletion_no_watch_has_shown_takes_objects_again(
    cluster: Cluster, *, is_back: bool
) -> None:
    """The server is asked before an object is refused; another namespace may be new."""
    found = _previewed(cluster)
    cluster.add_namespace("other")
    await found.create(POD)
    target = find_target("/api/v1/namespaces/other")
    assert target is not None
    old = await cluster.client.get_json(NAMESPACES, "", "other")
    kind = cluster.server.catalogue.find("", "v1", "namespaces")
    assert kind is not None
    ending = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    namespaces = cluster.server.storage.collection(kind.resource)
    body = msgspec.json.encode({**POD, "metadata": {"name": "a"}})

    found.preview.overlay.observe(
        target, {**old, "metadata": {**old["metadata"], **ending}}
    )
    stored = namespaces.get(("", "other"))
    assert stored is not None
    namespaces.put(
        ("", "other"), {**stored.obj, "metadata": {**stored.obj["metadata"], **ending}}
    )
    with pytest.raises(errors.Forbidden, match="because it is being terminated"):
        await found.client.create_json(PODS, "other", body)
    namespaces.remove(("", "other"))
    if is_back:
        cluster.add_namespace("other")
        pod = await found.client.create_json(PODS, "other", body)
        assert pod.metadata.name == "a"
    else:
        with pytest.raises(errors.NotFound, match='namespaces "other" not found'):
            await found.client.create_json(PODS, "other", body)
    assert not found.preview.overlay.is_ending("other")


async def test_unseen_namespaces_take_bounded_memory(cluster: Cluster) -> None:
    overlay = _previewed(cluster).preview.overlay
    for number in range(5000):
        target = find_target(f"/api/v1/namespaces/n{number}")
        assert target is not None
        obj = {"metadata": {"name": target.name, "deletionTimestamp": "x"}}
        overlay.observe(target, obj)
    assert overlay.is_ending("n4999")
    assert not overlay.is_ending("n0")


async def test_due_writes_are_read_at_a_limited_rate(cluster: Cluster) -> None:
    found = _previewed(cluster)
    for number in range(500):
        await found.create({**POD, "metadata": {"name": f"pod-{number}"}})
    judging = asyncio.create_task(found.preview.run())
    await asyncio.sleep(29)
    before = found.witness.reads
    rates = []
    for _ in range(12):
        await asyncio.sleep(1)
        rates.append(found.witness.reads - before)
        before = found.witness.reads
    judging.cancel()
    assert max(rates) <= 100
    assert rates[-1] == 0
    assert sum(rates) == 500
    assert found.preview.report().pending == []


async def test_a_write_confirmed_meanwhile_is_not_read(cluster: Cluster) -> None:
    found = _previewed(cluster)
    for number in range(300):
        await found.create({**POD, "metadata": {"name": f"pod-{number}"}})
    judging = asyncio.create_task(found.preview.run())
    await asyncio.sleep(29)
    before = found.witness.reads
    await asyncio.sleep(1.5)
    overlay = found.preview.overlay
    for entry in overlay.entries:
        overlay.entries.remove(entry)
    await asyncio.sleep(20)
    judging.cancel()
    assert found.witness.reads - before <= 130


async def test_a_dry_run_leaves_the_view_as_it_is(cluster: Cluster) -> None:
    """It is sent only if the preview may send dry runs."""
    allowed = _previewed(cluster, dry_run=True)
    config_map = ConfigMap(metadata=ObjectMeta(generate_name="a-", namespace="default"))
    tried = await allowed.client.try_create(CONFIG_MAPS, config_map)
    assert tried.metadata.name.startswith("a-")
    found = _previewed(cluster)
    with pytest.raises(errors.APIError, match="sends no dry run"):
        await found.client.try_create(CONFIG_MAPS, config_map)
    for each in (allowed, found):
        page = await each.client.list_page(CONFIG_MAPS, "default")
        assert len(page.items) == 0
