"""Objects are stored again, on a cluster in memory."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.json_objects import JSON
from controller_manager.api.storagemigration.v1beta1 import (
    STORAGE_VERSION_MIGRATIONS,
    StorageVersionMigration,
)
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, Write, make_config
from tests.controllers.custom_resources import ANYTHING, DEFINITIONS, definition
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(
    controllers=("svm", "ttl"), use_service_account_credentials=True
)
ENABLED: Final = replace(
    CONFIG, features=FeatureGates({"StorageVersionMigrator": True})
)
API: Final = "storagemigration.k8s.io/v1beta1"
WIDGET: Final = "widgets.example.com"

SUCCEEDED: Final = {"Running": "False", "Succeeded": "True"}
FAILED: Final = {"Running": "False", "Failed": "True"}


def request_migration(
    cluster: Cluster, name: str = "a", resource: str = "secrets", group: str = ""
) -> None:
    wanted = {"resource": resource, **({"group": group} if group else {})}
    cluster.add("StorageVersionMigration", name, API, spec={"resource": wanted})


async def read(cluster: Cluster, name: str = "a") -> StorageVersionMigration:
    return await cluster.client.get(STORAGE_VERSION_MIGRATIONS, "", name)


async def states(cluster: Cluster, name: str = "a") -> dict[str, str]:
    found = await read(cluster, name)
    return {each.type: each.status for each in found.status.conditions or ()}


async def message(cluster: Cluster, kind: str, name: str = "a") -> str:
    found = await read(cluster, name)
    return next(
        each.message for each in found.status.conditions or () if each.type == kind
    )


async def define_widgets(cluster: Cluster) -> None:
    body = msgspec.json.encode(definition())
    await cluster.client.create_json(DEFINITIONS, "", body)


def add_widget(cluster: Cluster, name: str) -> None:
    kind = cluster.server.catalogue.of("example.com/v1", "Widget")
    assert kind is not None
    cluster.server.objects.create(kind, "default", {"metadata": {"name": name}})


async def definition_status(cluster: Cluster) -> tuple[JSON, list[str]]:
    found = await cluster.client.get_json(DEFINITIONS, "", WIDGET)
    status = found["status"]
    condition: JSON = next(
        (each for each in status["conditions"] if each["type"] == "StorageMigrating"),
        {},
    )
    return condition, status["storedVersions"]


def paths(writes: list[Write]) -> list[str]:
    return [
        f"{each.method} {each.path.rpartition('/v1')[2].removeprefix('beta1')}"
        for each in writes
    ]


def rewritten(writes: list[Write]) -> list[str]:
    return [
        each.path.rpartition("/")[2]
        for each in writes
        if each.method == "PATCH" and not each.path.endswith("/status")
    ]


def answering(
    name: str, code: int, text: str, when: Callable[[], bool]
) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response | None:
        if request.method == "PATCH" and request.path.endswith(name) and when():
            status = {"kind": "Status", "code": code, "message": text}
            return Response(code, {}, msgspec.json.encode(status))
        return None

    return answer


async def test_all_objects_of_a_resource_are_stored_again() -> None:
    cluster = Cluster(rbac=True)
    for name in ("x", "y"):
        cluster.add("Secret", name, type="Opaque")
    async with cluster.confined_manager(ENABLED) as recording:
        request_migration(cluster)
        await asyncio.sleep(5)
        found = await read(cluster)
    assert await states(cluster) == SUCCEEDED
    status = "PUT /storageversionmigrations/a/status"
    assert paths(recording.writes) == [
        status,
        status,
        "PATCH /namespaces/default/secrets/x",
        "PATCH /namespaces/default/secrets/y",
        status,
        status,
    ]
    for each in recording.writes[2:4]:
        body = json.loads(each.body)
        assert set(body) == {"apiVersion", "kind", "metadata"}
        assert set(body["metadata"]) == {"uid", "resourceVersion"}
    reasons = [(each.type, each.reason) for each in found.status.conditions or ()]
    assert reasons == [
        ("Running", "MigrationCompleted"),
        ("Succeeded", "StorageVersionMigrationSucceeded"),
    ]


async def test_objects_that_are_newer_than_the_migration_are_left_alone() -> None:
    cluster = Cluster()
    cluster.add("Secret", "old", type="Opaque")

    async def add_another(request: Request) -> Response | None:
        if request.method == "PUT" and b'"resourceVersion":"' in (request.body or b""):
            status = json.loads(request.body or b"{}").get("status", {})
            if "resourceVersion" in status and "Succeeded" not in str(status):
                cluster.add("Secret", "new", type="Opaque")
        return None

    meddler = Meddler(cluster.transport, add_another)
    request_migration(cluster)
    async with cluster.manager(ENABLED, meddler) as recording:
        await asyncio.sleep(5)
    assert await states(cluster) == SUCCEEDED
    assert rewritten(recording.writes) == ["old"]


async def test_migrations_of_one_resource_run_one_after_the_other() -> None:
    cluster = Cluster()
    cluster.add("Secret", "x", type="Opaque")
    freed = asyncio.Event()

    async def hold(request: Request) -> Response | None:
        if request.method == "PATCH" and request.path.endswith("/x"):
            await freed.wait()
        return None

    async with cluster.manager(ENABLED, Meddler(cluster.transport, hold)):
        request_migration(cluster, "b")
        await asyncio.sleep(2)
        request_migration(cluster, "a")
        request_migration(cluster, "other", "configmaps")
        await asyncio.sleep(5)
        assert await states(cluster, "b") == {"Running": "True"}
        assert await states(cluster, "a") == {}
        assert await states(cluster, "other") == SUCCEEDED
        freed.set()
        await asyncio.sleep(10)
    assert await states(cluster, "a") == await states(cluster, "b") == SUCCEEDED


async def test_a_migration_that_is_deleted_lets_the_next_one_run() -> None:
    cluster = Cluster()
    for name in ("x", "y"):
        cluster.add("Secret", name, type="Opaque")
    freed = asyncio.Event()

    async def hold(request: Request) -> Response | None:
        if request.method == "PATCH" and request.path.endswith("/x"):
            await freed.wait()
        return None

    meddler = Meddler(cluster.transport, hold)
    async with cluster.manager(ENABLED, meddler) as recording:
        request_migration(cluster, "a")
        await asyncio.sleep(2)
        request_migration(cluster, "b")
        await cluster.client.delete(STORAGE_VERSION_MIGRATIONS, "", "a")
        await asyncio.sleep(2)
        assert await states(cluster, "b") == {"Running": "True"}
        freed.set()
        await asyncio.sleep(10)
    assert await states(cluster, "b") == SUCCEEDED
    assert rewritten(recording.writes).count("y") == 1


async def test_an_object_that_changes_or_goes_meanwhile_needs_nothing() -> None:
    cluster = Cluster()
    for name in ("changed", "gone", "same"):
        cluster.add("Secret", name, type="Opaque")

    async def meddle(request: Request) -> Response | None:
        if request.method == "PATCH" and request.path.endswith("/changed"):
            await change_secret(cluster, "changed")
        if request.method == "PATCH" and request.path.endswith("/gone"):
            await cluster.client.delete(SECRETS, "default", "gone")
        return None

    request_migration(cluster)
    meddler = Meddler(cluster.transport, meddle)
    async with cluster.manager(ENABLED, meddler) as recording:
        await asyncio.sleep(5)
    assert await states(cluster) == SUCCEEDED
    assert sorted(rewritten(recording.writes)) == ["changed", "gone", "same"]


async def change_secret(cluster: Cluster, name: str) -> None:
    change = {"metadata": {"labels": {"changed": "yes"}}}
    await cluster.client.patch(SECRETS, "default", name, change, PatchType.MERGE)


@pytest.mark.parametrize("code", [401, 429, 500, 502, 503, 504])
async def test_a_failure_that_may_pass_is_retried(code: int) -> None:
    cluster = Cluster()
    cluster.add("Secret", "x", type="Opaque")
    broken = True
    fail = answering("/x", code, "not now", lambda: broken)
    request_migration(cluster)
    async with cluster.manager(ENABLED, Meddler(cluster.transport, fail)):
        await asyncio.sleep(5)
        assert await states(cluster) == {"Running": "True"}
        broken = False
        await asyncio.sleep(60)
    assert await states(cluster) == SUCCEEDED


@pytest.mark.parametrize("code", [400, 403, 404, 422])
async def test_a_refusal_fails_the_migration(code: int) -> None:
    cluster = Cluster()
    cluster.add("Secret", "x", type="Opaque")
    fail = answering("/x", code, "no way", lambda: True)
    request_migration(cluster)
    async with cluster.manager(ENABLED, Meddler(cluster.transport, fail)):
        await asyncio.sleep(5)
    assert await states(cluster) == FAILED
    text = "migration encountered unhandled error: no way"
    assert await message(cluster, "Failed") == text


async def test_a_resource_may_appear_within_a_minute() -> None:
    """Its definition may be created just after the request."""
    cluster = Cluster()
    request_migration(cluster, resource="widgets", group="example.com")
    async with cluster.manager(ENABLED):
        await asyncio.sleep(30)
        assert await states(cluster) == {"Running": "True"}
        await define_widgets(cluster)
        await asyncio.sleep(60)
    assert await states(cluster) == SUCCEEDED
    after, stored = await definition_status(cluster)
    assert "generation mismatch" in after["message"]
    assert stored == ["v1"]


async def test_a_resource_that_is_not_served_fails() -> None:
    cluster = Cluster()
    request_migration(cluster, resource="widgets", group="example.com")
    async with cluster.manager(ENABLED):
        await asyncio.sleep(180)
    assert await states(cluster) == FAILED
    text = "resource does not exist in discovery"
    assert await message(cluster, "Failed") == text


async def test_a_resource_that_is_served_no_more_fails() -> None:
    cluster = Cluster()
    await define_widgets(cluster)
    add_widget(cluster, "w")
    fail = answering("/w", 503, "not now", lambda: True)
    request_migration(cluster, resource="widgets", group="example.com")
    async with cluster.manager(ENABLED, Meddler(cluster.transport, fail)):
        await asyncio.sleep(90)
        assert await states(cluster) == {"Running": "True"}
        await cluster.client.delete(DEFINITIONS, "", WIDGET)
        await asyncio.sleep(180)
    assert await states(cluster) == FAILED
    assert await message(cluster, "Failed") == (
        "migration encountered unhandled error: unable to obtain GVR from discovery"
    )


async def test_an_object_whose_version_is_no_number_fails_the_migration() -> None:
    cluster = Cluster()
    cluster.add("Secret", "x", type="Opaque")

    async def answer(request: Request) -> Response | None:
        if request.path.endswith("/secrets") and request.method == "GET":
            metadata = {"name": "x", "namespace": "default", "resourceVersion": "abc"}
            items = [{"metadata": metadata}]
            body = {"metadata": {"resourceVersion": "9"}, "items": items}
            return Response(HTTPStatus.OK, {}, msgspec.json.encode(body))
        return None

    request_migration(cluster)
    async with cluster.manager(ENABLED, Meddler(cluster.transport, answer)):
        await asyncio.sleep(5)
    assert await states(cluster) == FAILED
    assert await message(cluster, "Failed") == (
        "migration encountered unhandled error: "
        "resource version is not well formed: abc"
    )


async def test_a_resource_that_cannot_be_patched_fails() -> None:
    cluster = Cluster()
    request_migration(
        cluster, resource="subjectaccessreviews", group="authorization.k8s.io"
    )
    async with cluster.manager(ENABLED):
        await asyncio.sleep(5)
    assert await states(cluster) == FAILED
    assert await message(cluster, "Failed") == (
        'resource "authorization.k8s.io/v1, Resource=subjectaccessreviews" does not '
        "support discovery operations: [update patch list]"
    )


async def test_the_definition_of_a_custom_resource_says_so() -> None:
    cluster = Cluster()
    await define_widgets(cluster)
    add_widget(cluster, "w")
    status = {"status": {"storedVersions": ["v0", "v1"]}}
    await cluster.client.patch(
        DEFINITIONS, "", WIDGET, status, PatchType.MERGE, "status"
    )
    seen: list[tuple[JSON, list[str]]] = []

    async def look(request: Request) -> Response | None:
        if request.method == "PATCH" and request.path.endswith("/w"):
            seen.append(await definition_status(cluster))
        return None

    request_migration(cluster, resource="widgets", group="example.com")
    meddler = Meddler(cluster.transport, look)
    async with cluster.manager(ENABLED, meddler) as recording:
        await asyncio.sleep(5)
    assert await states(cluster) == SUCCEEDED
    assert rewritten(recording.writes) == ["w"]
    ((during, stored),) = seen
    assert (during["status"], during["reason"]) == ("True", "MigrationRunning")
    assert during["message"] == "Migration a is running"
    assert stored == ["v0", "v1"]
    after, stored = await definition_status(cluster)
    assert (after["status"], after["reason"]) == ("False", "MigrationSucceeded")
    assert after["message"] == (
        "The migration has succeeded and the stored versions have been updated"
    )
    assert stored == ["v1"]


async def test_a_definition_that_changes_meanwhile_keeps_its_versions() -> None:
    """Objects may be stored in another version by now; and once is not enough."""
    cluster = Cluster()
    await define_widgets(cluster)
    add_widget(cluster, "w")
    status = {"status": {"storedVersions": ["v0", "v1"]}}
    await cluster.client.patch(
        DEFINITIONS, "", WIDGET, status, PatchType.MERGE, "status"
    )
    old = {"name": "v0", "schema": {"openAPIV3Schema": ANYTHING}}
    versions = [*definition()["spec"]["versions"], old]
    more = {"spec": {"versions": versions}}
    await cluster.client.patch(DEFINITIONS, "", WIDGET, more, PatchType.MERGE)
    refused = 0

    async def meddle(request: Request) -> Response | None:
        nonlocal refused
        if request.method == "PATCH" and request.path.endswith("/w"):
            change = {"spec": {"names": {"shortNames": ["wdg"]}}}
            await cluster.client.patch(DEFINITIONS, "", WIDGET, change, PatchType.MERGE)
        if b"MigrationCompleted" in (request.body or b"") and refused < 2:
            refused += 1
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, {}, b"later")
        return None

    request_migration(cluster, resource="widgets", group="example.com")
    async with cluster.manager(ENABLED, Meddler(cluster.transport, meddle)):
        await asyncio.sleep(60)
    assert await states(cluster) == SUCCEEDED
    assert refused == 2
    after, stored = await definition_status(cluster)
    assert "generation mismatch" in after["message"]
    assert stored == ["v0", "v1"]


async def test_after_a_failure_a_definition_keeps_its_versions() -> None:
    """Upstream drops those that are not stored any more, although they may be."""
    cluster = Cluster()
    await define_widgets(cluster)
    add_widget(cluster, "w")
    status = {"status": {"storedVersions": ["v0", "v1"]}}
    await cluster.client.patch(
        DEFINITIONS, "", WIDGET, status, PatchType.MERGE, "status"
    )
    fail = answering("/w", 422, "no way", lambda: True)
    request_migration(cluster, resource="widgets", group="example.com")
    async with cluster.manager(ENABLED, Meddler(cluster.transport, fail)):
        await asyncio.sleep(5)
    assert await states(cluster) == FAILED
    after, stored = await definition_status(cluster)
    assert (after["reason"], stored) == ("MigrationFailed", ["v0", "v1"])


async def test_a_second_migration_of_a_custom_resource_is_like_the_first() -> None:
    """The definition never loses its stored versions; in one role."""
    cluster = Cluster(rbac=True)
    await define_widgets(cluster)
    async with cluster.confined_manager(ENABLED):
        for name in "ab":
            request_migration(cluster, name, "widgets", "example.com")
            await asyncio.sleep(5)
            assert await states(cluster, name) == SUCCEEDED
            after, stored = await definition_status(cluster)
            assert (after["reason"], stored) == ("MigrationSucceeded", ["v1"])


async def test_a_manager_that_starts_goes_on() -> None:
    cluster = Cluster()
    for name in ("x", "y"):
        cluster.add("Secret", name, type="Opaque")
    fail = answering("/y", 503, "not now", lambda: True)
    request_migration(cluster)
    async with cluster.manager(ENABLED, Meddler(cluster.transport, fail)):
        await asyncio.sleep(5)
        version = (await read(cluster)).status.resource_version
        assert version
    async with cluster.manager(ENABLED) as recording:
        await asyncio.sleep(5)
    assert await states(cluster) == SUCCEEDED
    assert (await read(cluster)).status.resource_version == version
    assert "y" in rewritten(recording.writes)


async def test_without_its_gate_it_does_not_run() -> None:
    """The gate is off by default."""
    cluster = Cluster()
    request_migration(cluster)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(60)
    assert await states(cluster) == {}
