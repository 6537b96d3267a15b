"""The common functions of an API server work for each kind."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from controller_manager.devcluster import registry
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds
from controller_manager.devcluster.scheme.models import built_in
from tests.clusters import Cluster
from tests.devcluster.registry.minimal import minimal
from tests.devcluster.requests import MERGE, call, send

pytestmark = pytest.mark.looptime

STORED = [kind for kind in find_kinds() if kind.is_stored and "create" in kind.verbs]
every_kind = pytest.mark.parametrize(
    "kind", STORED, ids=lambda kind: f"{kind.resource}-{kind.version}"
)

AGELESS = (
    "CSIStorageCapacity",
    "ClusterTrustBundle",
    "PodTemplate",
    "StorageVersionMigration",
)
"""Kinds whose table has no age on a real cluster either."""

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
LABEL = {"metadata": {"labels": {"a": "b"}}}


def collection(kind: Kind) -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    scope = "/namespaces/default" if kind.namespaced else ""
    return f"{root}/{kind.version}{scope}/{kind.plural}"


async def create(
    cluster: Cluster, kind: Kind, name: str = "a", query: str = "", **metadata: Any
) -> JSON:
    body = minimal(kind, name, **metadata)
    return await send(cluster, "POST", f"{collection(kind)}{query}", body)


async def names(cluster: Cluster, kind: Kind, query: str = "") -> list[str]:
    listed = await send(cluster, "GET", f"{collection(kind)}{query}")
    return [each["metadata"]["name"] for each in listed["items"]]


def path_of(kind: Kind, obj: JSON) -> str:
    return f"{collection(kind)}/{obj['metadata']['name']}"


def test_kinds_are_found() -> None:
    """By group and name; two files cannot claim one."""
    found = [(kind.resource, kind.version) for kind in find_kinds()]
    assert len(found) == len(set(found)) > 30
    assert {("pods", "v1"), ("deployments.apps", "v1")} <= set(found)


def test_a_new_kind_takes_one_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "widget.py").write_text(
        "from controller_manager.devcluster.apiserver.kind import Kind\n"
        'WIDGETS = Kind("example.com", "v1", "Widget", "widgets")\n'
    )
    (tmp_path / "example" / "__init__.py").touch()
    monkeypatch.setattr(registry, "__path__", [*registry.__path__, str(tmp_path)])
    for name in ("example", "example.widget"):  # forget them afterwards
        monkeypatch.setitem(
            sys.modules, f"{registry.__name__}.{name}", ModuleType(name)
        )
        del sys.modules[f"{registry.__name__}.{name}"]
    found = find_kinds.__wrapped__()
    added = {each.resource for each in found} - {each.resource for each in find_kinds()}
    assert added == {"widgets.example.com"}


def test_every_kind_has_its_model() -> None:
    kinds = {f"{kind.api_version} {kind.kind}" for kind in find_kinds()}
    assert kinds - built_in().kinds.keys() == set()


@every_kind
async def test_an_object_is_created_and_read_back(cluster: Cluster, kind: Kind) -> None:
    created = await create(cluster, kind)
    assert created["kind"] == kind.kind
    assert created["apiVersion"] == kind.api_version
    assert {"uid", "creationTimestamp", "resourceVersion"} <= created["metadata"].keys()
    assert ("generation" in created["metadata"]) is kind.strategy.counts_generations
    read = await send(cluster, "GET", path_of(kind, created))
    assert read["metadata"]["uid"] == created["metadata"]["uid"]
    again = await call(cluster, "POST", collection(kind), minimal(kind))
    assert again.status == 409


@every_kind
async def test_lists_are_selected_by_label_and_field(
    cluster: Cluster, kind: Kind
) -> None:
    wanted = await create(cluster, kind, "one", labels={"color": "red"})
    other = await create(cluster, kind, "two", labels={"color": "blue"})
    name, another = wanted["metadata"]["name"], other["metadata"]["name"]
    assert await names(cluster, kind, "?labelSelector=color=red") == [name]
    assert await names(cluster, kind, f"?fieldSelector=metadata.name={name}") == [name]
    left = await names(cluster, kind, f"?fieldSelector=metadata.name!={name}")
    assert another in left
    assert name not in left
    refused = await call(cluster, "GET", f"{collection(kind)}?fieldSelector=spec.x=1")
    assert refused.status == 400
    path = f"{collection(kind)}?labelSelector=color"
    partial = (await send(cluster, "GET", path, accept=METADATA))["items"]
    assert [each["kind"] for each in partial] == ["PartialObjectMetadata"] * 2
    assert {each["metadata"]["name"] for each in partial} == {name, another}


@every_kind
async def test_pages_hold_each_object_once(cluster: Cluster, kind: Kind) -> None:
    for name in ("one", "two", "three"):
        await create(cluster, kind, name)
    expected, found = await names(cluster, kind), []
    query = "?limit=1"
    while True:
        page = await send(cluster, "GET", f"{collection(kind)}{query}")
        found += [each["metadata"]["name"] for each in page["items"]]
        assert len(page["items"]) == 1
        if not (token := page["metadata"].get("continue")):
            break
        query = f"?limit=1&continue={token}"
        if len(found) == 1:
            await create(cluster, kind, "zzz")
    assert found == expected


@every_kind
async def test_a_delete_of_another_object_is_refused(
    cluster: Cluster, kind: Kind
) -> None:
    """By uid or by version; with the right ones it goes, or is about to."""
    created = await create(cluster, kind)
    path, metadata = path_of(kind, created), created["metadata"]
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        refused = await call(cluster, "DELETE", path, {"preconditions": wrong})
        assert refused.status == 409
    current = (await send(cluster, "GET", path))["metadata"]
    right = {"uid": metadata["uid"], "resourceVersion": current["resourceVersion"]}
    options = {"preconditions": right, "propagationPolicy": "Background"}
    answer = await send(cluster, "DELETE", path, options)
    if answer["kind"] == "Status":
        assert answer["details"]["uid"] == metadata["uid"]
    left = await call(cluster, "GET", path)
    if left.status == 200:
        assert "deletionTimestamp" in json.loads(left.body)["metadata"]


@every_kind
async def test_a_dry_run_stores_nothing(cluster: Cluster, kind: Kind) -> None:
    version = cluster.server.storage.version
    await create(cluster, kind, "unborn", query="?dryRun=All")
    assert cluster.server.storage.version == version
    created = await create(cluster, kind)
    path, version = path_of(kind, created), cluster.server.storage.version
    patched = await send(cluster, "PATCH", f"{path}?dryRun=All", LABEL)
    assert patched["metadata"]["labels"]["a"] == "b"
    current = await send(cluster, "GET", path)
    current["metadata"]["labels"] = {"a": "b"}
    put = await send(cluster, "PUT", f"{path}?dryRun=All", current)
    assert put["metadata"]["labels"]["a"] == "b"
    await send(cluster, "DELETE", f"{path}?dryRun=All")
    assert cluster.server.storage.version == version


@every_kind
async def test_an_old_version_is_not_written_over(cluster: Cluster, kind: Kind) -> None:
    """Nor an object of another uid; nothing changes when nothing is changed."""
    created = await create(cluster, kind)
    path = path_of(kind, created)
    patched = await send(cluster, "PATCH", path, LABEL)
    same = await send(cluster, "PATCH", path, LABEL)
    assert same["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]
    assert (await call(cluster, "PUT", path, created)).status == 409
    foreign = {**patched, "metadata": {**patched["metadata"], "uid": "another"}}
    assert (await call(cluster, "PUT", path, foreign)).status == 409


@every_kind
async def test_status_is_written_apart_where_there_is_one(
    cluster: Cluster, kind: Kind
) -> None:
    """And only there; the other endpoint leaves it alone."""
    created = await create(cluster, kind)
    path = path_of(kind, created)
    model = built_in().kinds[f"{kind.api_version} {kind.kind}"]
    fields = built_in().model(model).fields
    assert kind.has_status is ("status" in fields), "as upstream's"
    condition = {
        "type": "Tested",
        "status": "True",
        "reason": "Test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    known = (await send(cluster, "GET", path)).get("status", {})
    conditions = [*known.get("conditions", []), condition]
    body = {"status": {"conditions": conditions}}
    if not kind.has_status:
        refused = await call(
            cluster, "PATCH", f"{path}/status", body, content_type=MERGE
        )
        assert refused.status == 404
        return
    written = await send(cluster, "PATCH", f"{path}/status", body)
    await send(cluster, "PATCH", path, {**LABEL, "status": None})
    stored = await send(cluster, "GET", f"{path}/status")
    assert stored["metadata"]["labels"]["a"] == "b"
    assert stored["status"] == written["status"]


@every_kind
async def test_a_table_has_names_and_ages(cluster: Cluster, kind: Kind) -> None:
    created = await create(cluster, kind)
    query = f"?fieldSelector=metadata.name={created['metadata']['name']}"
    table = await send(cluster, "GET", f"{collection(kind)}{query}", accept=TABLE)
    titles = [each["name"] for each in table["columnDefinitions"]]
    (row,) = table["rows"]
    assert len(row["cells"]) == len(titles) == len(set(titles))
    cells = dict(zip(titles, row["cells"], strict=True))
    assert cells["Name"] == created["metadata"]["name"]
    if kind.kind not in AGELESS:
        assert {"Age", "Created At", "Last Seen"} & cells.keys()


@every_kind
async def test_a_watch_tells_of_every_change(cluster: Cluster, kind: Kind) -> None:
    listed = await send(cluster, "GET", collection(kind))
    version = listed["metadata"]["resourceVersion"]
    created = await create(cluster, kind)
    path = path_of(kind, created)
    await send(cluster, "PATCH", path, LABEL)
    query = (
        ("watch", "1"),
        ("resourceVersion", version),
        ("timeoutSeconds", "1"),
        ("fieldSelector", f"metadata.name={created['metadata']['name']}"),
    )
    answer = await cluster.transport.request(Request("GET", collection(kind), query))
    events = [json.loads(line) for line in answer.body.splitlines()]
    told = [each["type"] for each in events]
    # A definition is established by the server itself, which is one more change.
    assert told[0] == "ADDED"
    assert set(told[1:]) == {"MODIFIED"}
    assert events[-1]["object"]["metadata"]["labels"]["a"] == "b"


@every_kind
async def test_an_exact_version_is_listed_as_it_was(
    cluster: Cluster, kind: Kind
) -> None:
    before = await names(cluster, kind)
    version = cluster.server.storage.version
    await create(cluster, kind)
    query = f"?resourceVersion={version}&resourceVersionMatch=Exact"
    assert await names(cluster, kind, query) == before
    late = await call(cluster, "GET", f"{collection(kind)}?resourceVersion=99999")
    assert late.status == 504


@every_kind
async def test_a_collection_is_deleted_where_that_is_allowed(
    cluster: Cluster, kind: Kind
) -> None:
    """By label; the others stay."""
    doomed = await create(cluster, kind, "one", labels={"color": "red"})
    kept = await create(cluster, kind, "two", labels={"color": "blue"})
    path = f"{collection(kind)}?labelSelector=color=red"
    if "deletecollection" not in kind.verbs:
        assert (await call(cluster, "DELETE", path)).status == 405
        return
    await send(cluster, "DELETE", path)
    left = {
        each["metadata"]["name"]
        for each in (await send(cluster, "GET", collection(kind)))["items"]
        if "deletionTimestamp" not in each["metadata"]
    }
    assert kept["metadata"]["name"] in left
    assert doomed["metadata"]["name"] not in left


@every_kind
async def test_a_scale_is_read_and_written_where_there_is_one(
    cluster: Cluster, kind: Kind
) -> None:
    created = await create(cluster, kind)
    path = f"{path_of(kind, created)}/scale"
    if kind.subresource("scale") is None:
        assert (await call(cluster, "GET", path)).status == 404
        return
    scale = await send(cluster, "GET", path)
    assert scale["status"]["selector"] == "app=a"
    scale["spec"] = {"replicas": 3}
    version = cluster.server.storage.version
    dry = await send(cluster, "PUT", f"{path}?dryRun=All", scale)
    assert dry["spec"] == {"replicas": 3}
    assert cluster.server.storage.version == version
    await send(cluster, "PUT", path, scale)
    scaled = await send(cluster, "GET", path_of(kind, created))
    assert scaled["spec"]["replicas"] == 3
