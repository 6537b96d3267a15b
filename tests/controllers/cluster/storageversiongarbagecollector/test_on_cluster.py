"""API servers that are gone are dropped, on a cluster in memory."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.apiserverinternal.v1alpha1 import (
    STORAGE_VERSIONS,
    ServerStorageVersion,
    StorageVersion,
    StorageVersionStatus,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Condition, ObjectMeta
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.cluster.storageversiongarbagecollector.controller import (  # noqa: E501 - a long name
    servers_of,
    status_without,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import Write, make_config
from tests.controllers.hands import Before, Hands
from tests.controllers.responses import refusal
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(
    controllers=("storage-version-gc", "ttl"), use_service_account_credentials=True
)
ENABLED: Final = replace(CONFIG, features=FeatureGates({"StorageVersionAPI": True}))
NAME: Final = "apps.deployments"


LEASES: Final = "coordination.k8s.io/v1/leases"
AGREED: Final = [("AllEncodingVersionsEqual", "True", "CommonEncodingVersionSet")]
DISAGREED: Final = [("AllEncodingVersionsEqual", "False", "CommonEncodingVersionUnset")]


def entries_of(versions: Mapping[str, str]) -> list[JSON]:
    return [
        {"apiServerID": server, "encodingVersion": each, "decodableVersions": [each]}
        for server, each in versions.items()
    ]


class Servers(Hands):
    """A cluster of API servers with leases."""

    def lease(self, *names: str, identity: str = "kube-apiserver") -> None:
        labels = {"apiserver.kubernetes.io/identity": identity}
        for name in names:
            self.put(LEASES, name, "kube-system", metadata={"labels": labels})

    def version(self, name: str = NAME, **versions: str) -> None:
        status: JSON = {"storageVersions": entries_of(versions)}
        if len(set(versions.values())) == 1:
            status["commonEncodingVersion"] = next(iter(versions.values()))
        self.put(STORAGE_VERSIONS, name, spec={}, status=status)

    async def lose(self, server: str, seconds: float = 1) -> None:
        self.remove(LEASES, server, "kube-system")
        await asyncio.sleep(seconds)

    def summary(self) -> tuple[dict[str, str], str | None, list[Any]]:
        status = self.stored(STORAGE_VERSIONS, NAME)["status"]
        entries = status.get("storageVersions", ())
        conditions = status.get("conditions", ())
        return (
            {each["apiServerID"]: each["encodingVersion"] for each in entries},
            status.get("commonEncodingVersion"),
            [(each["type"], each["status"], each["reason"]) for each in conditions],
        )


@pytest.fixture
async def cluster() -> Servers:
    return Servers()


def paths(writes: list[Write]) -> list[tuple[str, str, int]]:
    return [
        (each.method, each.path.rpartition("v1alpha1/")[2], each.status)
        for each in writes
    ]


async def test_the_others_agree_once_an_api_server_is_gone() -> None:
    cluster = Servers(rbac=True)
    cluster.lease("a", "b", "c")
    cluster.version(a="v1", b="v2", c="v2")
    async with cluster.confined_manager(ENABLED) as recording:
        await asyncio.sleep(1)
        assert recording.writes == []
        await cluster.lose("a")
    assert cluster.summary() == ({"b": "v2", "c": "v2"}, "v2", AGREED)
    assert paths(recording.writes) == [("PUT", f"storageversions/{NAME}/status", 200)]


async def test_the_others_do_not_agree_without_the_one_that_is_gone(
    cluster: Servers,
) -> None:
    cluster.lease("a", "b", "c")
    cluster.version(a="v1", b="v2", c="v3")
    async with cluster.manager(ENABLED):
        await cluster.lose("b")
    assert cluster.summary() == ({"a": "v1", "c": "v3"}, None, DISAGREED)


@pytest.mark.parametrize("server", ["b", "c", "a/b", ".."])
async def test_an_api_server_that_never_had_a_lease_is_dropped(
    cluster: Servers, server: str
) -> None:
    """Also one whose lease is held by something else, and a name of no lease."""
    cluster.lease("a")
    cluster.lease("b", identity="other")
    async with cluster.manager(ENABLED):
        cluster.version(**{"a": "v1", server: "v2"})
        await asyncio.sleep(1)
    assert cluster.summary() == ({"a": "v1"}, "v1", AGREED)


async def test_a_storage_version_goes_with_its_last_api_server() -> None:
    cluster = Servers(rbac=True)
    cluster.lease("a")
    cluster.version(a="v1")
    async with cluster.confined_manager(ENABLED) as recording:
        await cluster.lose("a")
    assert cluster.names(STORAGE_VERSIONS) == []
    (deletion,) = recording.writes
    assert (deletion.method, deletion.status) == ("DELETE", 200)
    assert set(json.loads(deletion.body)["preconditions"]) == {"uid", "resourceVersion"}


async def test_only_versions_that_name_the_api_server_are_looked_at(
    cluster: Servers,
) -> None:
    cluster.lease("a", "b")
    cluster.version(a="v1", b="v1")
    for number in range(20):
        cluster.version(f"apps.others{number}", b="v1")
    asked: list[str] = []

    async def note(request: Request) -> Response | None:
        if "/storageversions/" in request.path or "/leases/" in request.path:
            asked.append(f"{request.method} {request.path.rpartition('/')[2]}")
        return None

    async with cluster.manager(ENABLED, Meddler(cluster.transport, note)):
        await asyncio.sleep(1)
        await cluster.lose("a")
    assert asked == ["GET a", "PUT status"]


async def test_an_api_server_that_cannot_be_asked_about_stays(cluster: Servers) -> None:
    """Upstream drops it after any error."""
    cluster.lease("a", "b")
    cluster.version(a="v1", b="v1")
    away = refusal(500, "", "etcd is away")
    fails = Before(cluster, "GET", "/leases/a", lambda: away, 99)
    async with cluster.manager(ENABLED, fails) as recording:
        await cluster.lose("a")
        assert recording.writes == []
        fails.times = 0
        await asyncio.sleep(30)
    assert cluster.summary() == ({"b": "v1"}, "v1", AGREED)


async def test_an_api_server_that_came_back_stays(cluster: Servers) -> None:
    cluster.lease("a")
    cluster.version(a="v1")
    comes = Before(cluster, "GET", "/leases/a", lambda: cluster.lease("a"))
    async with cluster.manager(ENABLED, comes) as recording:
        await cluster.lose("a", 5)
    assert recording.writes == []


async def test_an_api_server_that_was_added_meanwhile_is_not_lost(
    cluster: Servers,
) -> None:
    cluster.lease("a", "b")
    cluster.version(a="v1")
    both = {
        "storageVersions": entries_of({"a": "v1", "b": "v2"}),
        "commonEncodingVersion": None,
    }
    adds = Before(
        cluster,
        "DELETE",
        f"/storageversions/{NAME}",
        lambda: cluster.edit(STORAGE_VERSIONS, NAME, status=both),
    )
    async with cluster.manager(ENABLED, adds) as recording:
        await cluster.lose("a")
    assert cluster.summary() == ({"b": "v2"}, "v2", AGREED)
    assert paths(recording.writes) == [
        ("DELETE", f"storageversions/{NAME}", 409),
        ("PUT", f"storageversions/{NAME}/status", 200),
    ]


@pytest.mark.parametrize(
    "positions", [{}, {"StorageVersionAPI": True, "APIServerIdentity": False}]
)
async def test_without_its_gates_it_does_not_run(
    cluster: Servers, positions: dict[str, bool]
) -> None:
    """One of them is off by default."""
    cluster.version(a="v1")
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


WAS_V1: Final = condition("v1", BEFORE)
WAS_UNSET: Final = condition(None, BEFORE)


@pytest.mark.parametrize(
    ("version", "gone", "left", "common", "since"),
    [
        (stored("v1", a="v1", b="v2", c="v2"), "a", "bc", "v2", NOW),
        (stored("v1", a="v1", b="v2", c="v2"), "b", "ac", None, NOW),
        (stored("v1", WAS_V1, a="v1", b="v1"), "b", "a", "v1", BEFORE),
        (stored("v1", WAS_V1, a="v1", b="v2"), "a", "b", "v2", NOW),
        (stored(None, WAS_UNSET, a="v1", b="v2", c="v3"), "a", "bc", None, BEFORE),
    ],
    ids=[
        "they agree",
        "they do not",
        "they still agree",
        "they agree on another version",
        "they still do not agree",
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
