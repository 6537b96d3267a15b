"""A set that is created again with other claim templates, over the pods of the first.

Upstream tries to give these pods the new volumes, which the API server refuses, and
stands still. Here they are pods of an old revision.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.apps.statefulset.identity import (
    corrected_owners,
    has_conflict,
    missing_claims,
)
from tests.clusters import Cluster
from tests.controllers.apps.statefulset.builders import (
    claim,
    claim_template,
    owner,
    pod,
    stateful_set,
)
from tests.controllers.apps.statefulset.test_on_cluster import Sets, manager
from tests.controllers.user import settle

DATA: Final = claim_template()
WAL: Final = claim_template("wal")
ON_DELETE: Final = {"type": "OnDelete"}
POLICIES: Final = ["OrderedReady", "Parallel"]


@asynccontextmanager
async def running(cluster: Cluster, **flags: str) -> AsyncGenerator[None, None]:
    async with cluster.nodes(binds_claims=True), manager(cluster, **flags):
        yield


class Owner(Sets):
    """A user who replaces the set web."""

    async def replace(
        self, before: list[JSON], after: list[JSON], **spec: Any
    ) -> dict[str, str]:
        """Make a set, then another one over its pods; return the uids of the pods."""
        await self.make(volumeClaimTemplates=before)
        await settle(60)
        await self.delete(STATEFUL_SETS, "web", "Orphan")
        await settle(10)
        uids = await self.uids()
        assert list(uids) == ["web-0", "web-1", "web-2"]
        await self.make(volumeClaimTemplates=after, **spec)
        return uids

    async def kept(self, before: Mapping[str, str]) -> list[str]:
        """Return the names of pods that are still those of before."""
        now = await self.uids()
        return [name for name, uid in now.items() if before.get(name) == uid]

    async def seen(
        self, old: Mapping[str, str], seconds: int, ready: int
    ) -> list[list[str]]:
        """Return the names of the old pods that are left, each time one is gone.

        So many pods are always ready.
        """
        seen = [list(old)]
        for _ in range(2 * seconds):
            await settle(0.5)
            if (kept := await self.kept(old)) != seen[-1]:
                seen.append(kept)
                assert not kept or (await self.sizes())["ready"] >= ready
        return seen

    async def volumes(self) -> dict[str, list[str]]:
        return {
            each.metadata.name: [
                volume.persistent_volume_claim.claim_name
                for volume in each.spec.volumes or ()
                if volume.persistent_volume_claim is not None
            ]
            for each in sorted(await self.pods(), key=lambda each: each.metadata.name)
        }

    async def sizes(self) -> dict[str, int]:
        """Return the numbers of the status that are not zero."""
        status = (await self.stateful_set()).status
        numbers = {
            "replicas": status.replicas,
            "ready": status.ready_replicas,
            "available": status.available_replicas,
            "current": status.current_replicas,
            "updated": status.updated_replicas,
        }
        return {name: number for name, number in numbers.items() if number}

    async def failures(self) -> list[str]:
        """Return the messages of events about pods that could not be changed."""
        return await self.messages("FailedUpdate") + await self.messages("FailedCreate")


def sizes(replicas: int, updated: int) -> dict[str, int]:
    """Return the numbers of a set whose pods are all available."""
    new = {"current": updated, "updated": updated} if updated else {}
    names = ("replicas", "ready", "available")
    return {**dict.fromkeys(names, replicas), **new}


def of(ordinal: int, *names: str) -> list[str]:
    return [f"{name}-web-{ordinal}" for name in names]


@pytest.fixture
def user(cluster: Cluster) -> Owner:
    return Owner(cluster)


@pytest.mark.looptime
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([DATA], [DATA, WAL]),
        ([DATA], [WAL]),
        ([DATA, WAL], [DATA, claim_template("logs")]),
        ([], [DATA]),
    ],
    ids=["one more", "renamed", "one renamed", "the first"],
)
async def test_pods_with_other_claims_are_replaced_one_by_one(
    cluster: Cluster, user: Owner, policy: str, before: list[JSON], after: list[JSON]
) -> None:
    """The highest ordinal first; no pod waits for a change that is refused."""
    names = [each["metadata"]["name"] for each in after]
    async with running(cluster):
        old = await user.replace(before, after, podManagementPolicy=policy)
        seen = await user.seen(old, 200, 2)
        assert await user.volumes() == {
            f"web-{each}": of(each, *names) for each in range(3)
        }
        assert await user.sizes() == sizes(3, 3)
    assert seen == [["web-0", "web-1", "web-2"], ["web-0", "web-1"], ["web-0"], []]
    assert await user.failures() == []


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([DATA, WAL], [DATA]),
        ([DATA, WAL], []),
        ([DATA], [{**DATA, "spec": {**DATA["spec"], "storageClassName": "fast"}}]),
        ([DATA, WAL], [WAL, DATA]),
    ],
    ids=["one less", "none", "another class", "another order"],
)
async def test_pods_that_have_all_claims_stay(
    cluster: Cluster, user: Owner, before: list[JSON], after: list[JSON]
) -> None:
    """As upstream: a pod may use more claims, and claims that exist are not made."""
    names = [each["metadata"]["name"] for each in before]
    async with running(cluster):
        old = await user.replace(before, after)
        await settle(60)
        assert await user.kept(old) == list(old)
        assert await user.sizes() == sizes(3, 3)
        assert await user.volumes() == {
            f"web-{each}": of(each, *names) for each in range(3)
        }
    assert await user.failures() == []


@pytest.mark.looptime
@pytest.mark.parametrize("policy", POLICIES)
async def test_the_strategy_on_delete_leaves_pods_with_other_claims(
    cluster: Cluster, user: Owner, policy: str
) -> None:
    """The set grows and shrinks; a pod that a user deletes comes with its claims."""
    both = ("data", "wal")
    async with running(cluster):
        old = await user.replace(
            [DATA], [DATA, WAL], updateStrategy=ON_DELETE, podManagementPolicy=policy
        )
        await settle(60)
        assert await user.kept(old) == list(old)
        assert await user.sizes() == sizes(3, 0)
        assert await user.claims() == [f"data-web-{each}" for each in range(3)]
        await user.edit(replicas=5)
        await settle(60)
        assert await user.kept(old) == list(old)
        assert await user.sizes() == sizes(5, 2)
        await user.client.delete(PODS, "default", "web-1")
        await settle(60)
        assert await user.volumes() == {
            "web-0": of(0, "data"),
            "web-1": of(1, *both),
            "web-2": of(2, "data"),
            "web-3": of(3, *both),
            "web-4": of(4, *both),
        }
        assert await user.sizes() == sizes(5, 3)
        await user.edit(replicas=1)
        await settle(240)
        assert await user.kept(old) == ["web-0"]
        assert await user.sizes() == sizes(1, 0)
    assert await user.failures() == []


SET = owner("StatefulSet", "web")
WEAK = owner("StatefulSet", "web", controller=False)
OTHER = owner("Database", "db")
BYSTANDER = owner("ConfigMap", "note", controller=False)
WANTED, CONDEMNED = owner("Pod", "web-0"), owner("Pod", "web-1")
EARLIER = [owner("StatefulSet", "web", "earlier"), owner("Pod", "web-0", "earlier")]


def policy(deleted: str, scaled: str) -> dict[str, Any]:
    given = {"whenDeleted": deleted, "whenScaled": scaled}
    return {"persistentVolumeClaimRetentionPolicy": given}


KEEP, GOES = policy("Retain", "Retain"), policy("Delete", "Retain")
SHRINKS, BOTH = policy("Retain", "Delete"), policy("Delete", "Delete")


def kinds(owners: Iterable[Any] | None) -> list[str] | None:
    return None if owners is None else [each.kind for each in owners]


def corrected(ordinal: int, *owners: JSON, **spec: Any) -> list[str] | None:
    """Return the kinds of the corrected owners of a claim, `None` if they are right.

    The set wants one pod, so the pod 1 is condemned.
    """
    subject, of_pod = stateful_set(1, **spec), pod(ordinal)
    return kinds(corrected_owners(claim("c", *owners), subject, of_pod))


@pytest.mark.parametrize(
    ("spec", "wanted", "condemned"),
    [
        (KEEP, [], []),
        (GOES, ["StatefulSet"], ["StatefulSet"]),
        (SHRINKS, [], ["Pod"]),
        (BOTH, ["StatefulSet"], ["Pod"]),
    ],
)
def test_each_policy_has_its_owners(
    spec: JSON, wanted: list[str], condemned: list[str]
) -> None:
    for ordinal, of_pod, expected in ((0, WANTED, wanted), (1, CONDEMNED, condemned)):
        for before in ([], [SET], [of_pod], [SET, of_pod]):
            right = [each["kind"] for each in before] == expected
            assert corrected(ordinal, *before, **spec) == (None if right else expected)


@pytest.mark.parametrize(
    ("owners", "spec", "expected"),
    [
        # An old API server sets no default: claims are retained.
        ([], {}, None),
        ([SET], {}, []),
        # References to others stay; an owner that is no controller becomes one.
        ([BYSTANDER], GOES, ["ConfigMap", "StatefulSet"]),
        ([BYSTANDER, SET], KEEP, ["ConfigMap"]),
        ([WEAK], GOES, ["StatefulSet"]),
        # A claim of another controller is left to it.
        ([OTHER], BOTH, None),
        ([OTHER, SET], BOTH, ["Database"]),
        # A claim of an earlier namesake is not touched: it will be collected.
        *(([each], spec, None) for each in EARLIER for spec in (KEEP, GOES)),
    ],
)
def test_owners_are_corrected(
    owners: list[JSON], spec: JSON, expected: list[str] | None
) -> None:
    assert corrected(0, *owners, **spec) == expected


@pytest.mark.parametrize(
    ("owners", "spec", "expected"),
    [
        ([OTHER], KEEP, ["Database"]),
        ([BYSTANDER], GOES, ["ConfigMap", "StatefulSet"]),
        ([SET], GOES, ["StatefulSet"]),
        # The API server refuses a second controller.
        ([OTHER], GOES, ["Database"]),
    ],
)
def test_a_new_claim_has_the_owners_of_its_template(
    owners: list[JSON], spec: JSON, expected: list[str]
) -> None:
    """Operators write them, so that the claims are deleted with their object."""
    templates = [claim_template(ownerReferences=owners)]
    subject = stateful_set(1, volumeClaimTemplates=templates, **spec)
    (made,) = missing_claims(subject, 0, {})
    assert kinds(made.metadata.owner_references) == expected


def test_another_controller_of_a_claim_is_a_conflict_unless_it_is_retained() -> None:
    for spec, expected in ((BOTH, True), (KEEP, False)):
        subject = stateful_set(1, **spec)
        assert has_conflict(claim("c", OTHER), subject, pod(0)) is expected
