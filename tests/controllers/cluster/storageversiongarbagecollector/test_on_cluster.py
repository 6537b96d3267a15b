"""API servers that are gone are dropped, on a cluster in memory."""

import asyncio
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
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


def config(gates: dict[str, bool] | None = None) -> Config:
    made = make_config(
        controllers=("storage-version-gc", "ttl"), use_service_account_credentials=True
    )
    chosen = {"StorageVersionAPI": True} if gates is None else gates
    return replace(made, features=FeatureGates(chosen))


NAME: Final = "apps.deployments"


LEASES: Final = "coordination.k8s.io/v1/leases"


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

    def also(self, server: str, version: str) -> None:
        """Add an API server to the version, which has no common encoding then."""
        status = self.stored(STORAGE_VERSIONS, NAME)["status"]
        entries = [*status["storageVersions"], *entries_of({server: version})]
        changes = {"storageVersions": entries, "commonEncodingVersion": None}
        self.edit(STORAGE_VERSIONS, NAME, status=changes)

    def lose_server(self, server: str) -> None:
        self.remove(LEASES, server, "kube-system")

    def summary(self) -> tuple[dict[str, str], str | None, list[Any]]:
        status = self.stored(STORAGE_VERSIONS, NAME)["status"]
        entries = status.get("storageVersions", ())
        conditions = status.get("conditions", ())
        return (
            {each["apiServerID"]: each["encodingVersion"] for each in entries},
            status.get("commonEncodingVersion"),
            [(each["type"], each["status"], each["reason"]) for each in conditions],
        )


@scenarios("cluster/storageversiongarbagecollector")
async def test_api_servers_that_are_gone_are_dropped(scenario: Scenario) -> None:
    await scenario.play(Servers, config)


async def test_only_versions_that_name_the_api_server_are_looked_at() -> None:
    cluster = Servers()
    cluster.lease("a", "b")
    cluster.version(a="v1", b="v1")
    for number in range(20):
        cluster.version(f"apps.others{number}", b="v1")
    asked: list[str] = []

    async def note(request: Request) -> Response | None:
        if "/storageversions/" in request.path or "/leases/" in request.path:
            asked.append(f"{request.method} {request.path.rpartition('/')[2]}")
        return None

    async with cluster.manager(config(), Meddler(cluster.transport, note)):
        await asyncio.sleep(1)
        cluster.lose_server("a")
        await asyncio.sleep(1)
    assert asked == ["GET a", "PUT status"]


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
