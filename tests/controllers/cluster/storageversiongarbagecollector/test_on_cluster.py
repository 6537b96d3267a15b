"""API servers that are gone are dropped, on a cluster in memory."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import pytest

from controller_manager.api.apiserverinternal.v1alpha1 import (
    STORAGE_VERSIONS,
    ServerStorageVersion,
    StorageVersion,
    StorageVersionStatus,
)
from controller_manager.api.coordination.v1 import SYSTEM_LEASES
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Condition, ObjectMeta
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.cluster.storageversiongarbagecollector.controller import (  # noqa: E501 - a long name
    servers_of,
    status_without,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, Write, make_config
from tests.meddler import Meddler

CONFIG: Final = make_config(
    controllers=("storage-version-gc", "ttl"), use_service_account_credentials=True
)
ENABLED: Final = replace(CONFIG, features=FeatureGates({"StorageVersionAPI": True}))
API: Final = "internal.apiserver.k8s.io/v1alpha1"
NAME: Final = "apps.deployments"


def add_lease(cluster: Cluster, name: str, identity: str = "kube-apiserver") -> None:
    kind = cluster.server.catalogue.of("coordination.k8s.io/v1", "Lease")
    assert kind is not None
    labels = {"apiserver.kubernetes.io/identity": identity}
    lease = {"metadata": {"name": name, "labels": labels}}
    cluster.server.objects.create(kind, "kube-system", lease)


def entries_of(versions: Mapping[str, str]) -> list[JSON]:
    return [
        {"apiServerID": server, "encodingVersion": each, "decodableVersions": [each]}
        for server, each in versions.items()
    ]


def add_version(cluster: Cluster, name: str = NAME, **versions: str) -> None:
    status: JSON = {"storageVersions": entries_of(versions)}
    if len(set(versions.values())) == 1:
        status["commonEncodingVersion"] = next(iter(versions.values()))
    cluster.add("StorageVersion", name, API, status=status)


async def lose(cluster: Cluster, server: str) -> None:
    await cluster.client.delete(SYSTEM_LEASES, "kube-system", server)
    await asyncio.sleep(1)


async def read(cluster: Cluster, name: str = NAME) -> StorageVersion:
    return await cluster.client.get(STORAGE_VERSIONS, "", name)


def summary(version: StorageVersion) -> tuple[dict[str, str], str | None, list[Any]]:
    status = version.status
    return (
        {
            each.api_server_id: each.encoding_version
            for each in status.storage_versions or ()
        },
        status.common_encoding_version,
        [(each.type, each.status, each.reason) for each in status.conditions or ()],
    )


def paths(writes: list[Write]) -> list[tuple[str, str, int]]:
    return [
        (each.method, each.path.rpartition("v1alpha1/")[2], each.status)
        for each in writes
    ]


AGREED: Final = [("AllEncodingVersionsEqual", "True", "CommonEncodingVersionSet")]
DISAGREED: Final = [("AllEncodingVersionsEqual", "False", "CommonEncodingVersionUnset")]


@pytest.mark.looptime
async def test_the_others_agree_once_an_api_server_is_gone() -> None:
    cluster = Cluster(rbac=True)
    for name in "abc":
        add_lease(cluster, name)
    add_version(cluster, a="v1", b="v2", c="v2")
    async with cluster.confined_manager(ENABLED) as recording:
        await asyncio.sleep(1)
        assert recording.writes == []
        await lose(cluster, "a")
        found = await read(cluster)
    assert summary(found) == ({"b": "v2", "c": "v2"}, "v2", AGREED)
    assert paths(recording.writes) == [("PUT", f"storageversions/{NAME}/status", 200)]


@pytest.mark.looptime
async def test_the_others_do_not_agree_without_the_one_that_is_gone() -> None:
    cluster = Cluster()
    for name in "abc":
        add_lease(cluster, name)
    add_version(cluster, a="v1", b="v2", c="v3")
    async with cluster.manager(ENABLED):
        await lose(cluster, "b")
        found = await read(cluster)
    assert summary(found) == ({"a": "v1", "c": "v3"}, None, DISAGREED)


@pytest.mark.looptime
async def test_an_api_server_that_never_had_a_lease_is_dropped() -> None:
    """Also one whose lease is held by something else."""
    cluster = Cluster()
    add_lease(cluster, "a")
    add_lease(cluster, "b", identity="other")
    async with cluster.manager(ENABLED):
        add_version(cluster, a="v1", b="v2", c="v2")
        await asyncio.sleep(1)
        found = await read(cluster)
    assert summary(found) == ({"a": "v1"}, "v1", AGREED)


@pytest.mark.looptime
async def test_a_storage_version_goes_with_its_last_api_server() -> None:
    cluster = Cluster(rbac=True)
    add_lease(cluster, "a")
    add_version(cluster, a="v1")
    async with cluster.confined_manager(ENABLED) as recording:
        await lose(cluster, "a")
        with pytest.raises(NotFound):
            await read(cluster)
    (deletion,) = recording.writes
    assert (deletion.method, deletion.status) == ("DELETE", 200)
    assert set(json.loads(deletion.body)["preconditions"]) == {"uid", "resourceVersion"}


@pytest.mark.looptime
async def test_only_versions_that_name_the_api_server_are_looked_at() -> None:
    cluster = Cluster()
    for name in "ab":
        add_lease(cluster, name)
    add_version(cluster, a="v1", b="v1")
    for number in range(20):
        add_version(cluster, f"apps.others{number}", b="v1")
    asked: list[str] = []

    async def note(request: Request) -> Response | None:
        if "/storageversions/" in request.path or "/leases/" in request.path:
            asked.append(f"{request.method} {request.path.rpartition('/')[2]}")
        return None

    async with cluster.manager(ENABLED, Meddler(cluster.transport, note)):
        await asyncio.sleep(1)
        await lose(cluster, "a")
    assert asked == ["GET a", "PUT status"]


@pytest.mark.looptime
async def test_an_api_server_that_cannot_be_asked_about_stays() -> None:
    """Upstream drops it after any error."""
    cluster = Cluster()
    add_lease(cluster, "a")
    add_lease(cluster, "b")
    add_version(cluster, a="v1", b="v1")
    broken = True

    async def fail(request: Request) -> Response | None:
        if broken and request.path.endswith("/leases/a"):
            body = b'{"kind":"Status","code":500,"message":"etcd is away"}'
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR, {}, body)
        return None

    async with cluster.manager(ENABLED, Meddler(cluster.transport, fail)) as recording:
        await lose(cluster, "a")
        assert recording.writes == []
        broken = False
        await asyncio.sleep(30)
        found = await read(cluster)
    assert summary(found) == ({"b": "v1"}, "v1", AGREED)


@pytest.mark.looptime
async def test_an_api_server_that_came_back_stays() -> None:
    cluster = Cluster()
    add_lease(cluster, "a")
    add_version(cluster, a="v1")

    async def bring_back(request: Request) -> Response | None:
        if request.path.endswith("/leases/a") and request.method == "GET":
            add_lease(cluster, "a")
        return None

    meddler = Meddler(cluster.transport, bring_back)
    async with cluster.manager(ENABLED, meddler) as recording:
        await cluster.client.delete(SYSTEM_LEASES, "kube-system", "a")
        await asyncio.sleep(5)
    assert recording.writes == []


@pytest.mark.looptime
async def test_an_api_server_that_was_added_meanwhile_is_not_lost() -> None:
    cluster = Cluster()
    for name in "ab":
        add_lease(cluster, name)
    add_version(cluster, a="v1")
    pending = True

    async def add_another(request: Request) -> Response | None:
        nonlocal pending
        if pending and request.method == "DELETE" and "storageversions" in request.path:
            pending = False
            current = await read(cluster)
            entry = {"apiServerID": "b", "encodingVersion": "v2"}
            entries = [
                {
                    "apiServerID": "a",
                    "encodingVersion": "v1",
                    "decodableVersions": ["v1"],
                },
                {**entry, "decodableVersions": ["v2"]},
            ]
            kind = cluster.server.catalogue.of(API, "StorageVersion")
            assert kind is not None
            metadata = {"name": NAME, "uid": current.metadata.uid}
            body = {"metadata": metadata, "status": {"storageVersions": entries}}
            cluster.server.objects.update(kind, "", NAME, body, "status")
        return None

    meddler = Meddler(cluster.transport, add_another)
    async with cluster.manager(ENABLED, meddler) as recording:
        await lose(cluster, "a")
        found = await read(cluster)
    assert summary(found) == ({"b": "v2"}, "v2", AGREED)
    assert paths(recording.writes) == [
        ("DELETE", f"storageversions/{NAME}", 409),
        ("PUT", f"storageversions/{NAME}/status", 200),
    ]


@pytest.mark.looptime
@pytest.mark.parametrize("server", ["a/b", ".."])
async def test_a_name_that_no_lease_can_have_is_dropped(server: str) -> None:
    cluster = Cluster()
    add_lease(cluster, "a")
    add_version(cluster, **{"a": "v1", server: "v1"})
    async with cluster.manager(ENABLED):
        await asyncio.sleep(1)
        found = await read(cluster)
    assert summary(found) == ({"a": "v1"}, "v1", AGREED)


@pytest.mark.looptime
@pytest.mark.parametrize(
    "positions", [{}, {"StorageVersionAPI": True, "APIServerIdentity": False}]
)
async def test_without_its_gates_it_does_not_run(positions: dict[str, bool]) -> None:
    """One of them is off by default."""
    cluster = Cluster()
    add_version(cluster, a="v1")
    config = replace(CONFIG, features=FeatureGates(positions))
    async with cluster.manager(config) as recording:
        await asyncio.sleep(60)
    assert [each for each in recording.writes if "storagev" in each.path] == []


BEFORE: Final = "2026-01-01T00:00:00Z"
NOW: Final = "2026-01-01T01:00:00Z"


def entry(server: str, version: str) -> ServerStorageVersion:
    return ServerStorageVersion(
        api_server_id=server, encoding_version=version, decodable_versions=(version,)
    )


def condition(common: str | None, since: str) -> Condition:
    state = "unset" if common is None else "set"
    return Condition(
        type="AllEncodingVersionsEqual",
        status="False" if common is None else "True",
        observed_generation=7,
        last_transition_time=since,
        reason=f"CommonEncodingVersion{state.title()}",
        message=f"Common encoding version {state}",
    )


def stored(
    common: str | None, *conditions: Condition, **versions: str
) -> StorageVersion:
    return StorageVersion(
        metadata=ObjectMeta(name="apps.deployments", generation=7),
        status=StorageVersionStatus(
            storage_versions=tuple(entry(*each) for each in versions.items()),
            common_encoding_version=common,
            conditions=conditions or None,
        ),
    )


@pytest.mark.parametrize(
    ("version", "gone", "left", "common", "since"),
    [
        pytest.param(
            stored("v1", a="v1", b="v2", c="v2"), "a", "bc", "v2", NOW, id="they agree"
        ),
        pytest.param(
            stored("v1", a="v1", b="v2", c="v2"), "b", "ac", None, NOW, id="they do not"
        ),
        pytest.param(
            stored("v1", condition("v1", BEFORE), a="v1", b="v1"),
            *("b", "a", "v1", BEFORE),
            id="they still agree",
        ),
        pytest.param(
            stored("v1", condition("v1", BEFORE), a="v1", b="v2"),
            *("a", "b", "v2", NOW),
            id="they agree on another version",
        ),
        pytest.param(
            stored(None, condition(None, BEFORE), a="v1", b="v2", c="v3"),
            *("a", "bc", None, BEFORE),
            id="they still do not agree",
        ),
    ],
)
def test_the_others_stay_and_agree_or_not(
    version: StorageVersion, gone: str, left: str, common: str | None, since: str
) -> None:
    kept = [
        each
        for each in version.status.storage_versions or ()
        if each.api_server_id in left
    ]
    assert status_without(version, gone, NOW) == StorageVersionStatus(
        storage_versions=tuple(kept),
        common_encoding_version=common,
        conditions=(condition(common, since),),
    )


def test_without_any_api_server_nothing_is_left() -> None:
    assert status_without(stored("v1", a="v1", b="v1"), "ab", NOW) is None


def test_conditions_of_others_stay() -> None:
    other = Condition(type="Other", status="True")
    version = stored("v1", other, condition("v1", BEFORE), a="v1", b="v2")
    status = status_without(version, "a", NOW)
    assert status is not None
    assert status.conditions == (other, condition("v2", NOW))


def test_an_api_server_is_named_once() -> None:
    """Also if it is listed twice."""
    assert list(servers_of(stored(None, a="v1"))) == ["a"]
    assert list(servers_of(StorageVersion())) == []
