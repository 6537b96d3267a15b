"""A set that is created again with other claim templates, over the pods of the first.

Upstream tries to give these pods the new volumes, which the API server refuses, and
stands still. Here they are pods of an old revision.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.cli.flags import make_config as config_from_flags
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    rolling,
    stateful_set_json,
)
from tests.controllers.builders import template
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime

DATA: Final = claim_template()
WAL: Final = claim_template("wal")
ON_DELETE: Final = {"type": "OnDelete"}
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"


@asynccontextmanager
async def running(
    cluster: Cluster, **flags: str
) -> AsyncGenerator[RecordingTransport, None]:
    """Run nodes and a manager of stateful sets that collects garbage."""
    names = ("statefulset-controller", "garbage-collector-controller")
    ours = make_config(controllers=names)
    given = {name.replace("_", "-"): [value] for name, value in flags.items()}
    made = config_from_flags(given, [])
    config = replace(
        made, client=ours.client, generic=ours.generic, serving=ours.serving
    )
    async with (
        cluster.nodes(binds_claims=True),
        cluster.manager(config) as recording,
    ):
        yield recording


class Owner(User):
    """A user who replaces the set web."""

    async def make(self, *templates: JSON, replicas: int = 3, **spec: Any) -> None:
        """Create the set with claim templates."""
        body = stateful_set_json(
            replicas=replicas, volumeClaimTemplates=list(templates), **spec
        )
        await self.create(STATEFUL_SETS, body)

    async def orphan(self) -> None:
        """Delete the set, but not its pods."""
        options = DeleteOptions(propagation_policy=PropagationPolicy.ORPHAN)
        await self.client.delete(STATEFUL_SETS, "default", "web", options)
        await settle(10)

    async def replace(
        self, before: list[JSON], after: list[JSON], **spec: Any
    ) -> dict[str, str]:
        """Make a set, then another one over its pods; return the uids of the pods."""
        await self.make(*before)
        await settle(60)
        await self.orphan()
        uids = await self.uids()
        assert list(uids) == ["web-0", "web-1", "web-2"]
        await self.make(*after, **spec)
        return uids

    async def edit(self, **spec: Any) -> None:
        """Change the set."""
        await self.patch(STATEFUL_SETS, "web", {"spec": spec})

    async def uids(self) -> dict[str, str]:
        """Return the uids of the pods by name."""
        pods = sorted(await self.pods(), key=lambda each: each.metadata.name)
        return {each.metadata.name: each.metadata.uid for each in pods}

    async def kept(self, before: Mapping[str, str]) -> list[str]:
        """Return the names of pods that are still those of before."""
        return [
            name for name, uid in (await self.uids()).items() if before.get(name) == uid
        ]

    async def volumes(self) -> dict[str, list[str]]:
        """Return the claims that each pod uses."""
        return {
            each.metadata.name: [
                volume.persistent_volume_claim.claim_name
                for volume in each.spec.volumes or ()
                if volume.persistent_volume_claim is not None
            ]
            for each in sorted(await self.pods(), key=lambda each: each.metadata.name)
        }

    async def claims(self) -> list[str]:
        """Return the names of all claims that are not being deleted."""
        page = await self.client.list_page(CLAIMS)
        return sorted(
            each.metadata.name for each in page.items if not is_deleting(each)
        )

    async def sizes(self) -> dict[str, int]:
        """Return the numbers of the status that are not zero."""
        status = (await self.client.get(STATEFUL_SETS, "default", "web")).status
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
        updates = await self.events("FailedUpdate")
        creations = await self.events("FailedCreate")
        return sorted(each.message for each in (*updates, *creations))


def sizes(replicas: int, updated: int) -> dict[str, int]:
    """Return the numbers of a set whose pods are all available."""
    new = {"current": updated, "updated": updated} if updated else {}
    names = ("replicas", "ready", "available")
    return {**dict.fromkeys(names, replicas), **new}


def of(ordinal: int, *names: str) -> list[str]:
    """Return the claims of a pod."""
    return [f"{name}-web-{ordinal}" for name in names]


@pytest.fixture
def owner(cluster: Cluster) -> Owner:
    return Owner(cluster)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
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
    cluster: Cluster, owner: Owner, policy: str, before: list[JSON], after: list[JSON]
) -> None:
    """The highest ordinal first; no pod waits for a change that is refused."""
    names = [each["metadata"]["name"] for each in after]
    async with running(cluster):
        old = await owner.replace(before, after, podManagementPolicy=policy)
        seen: list[list[str]] = []
        for _ in range(400):
            await settle(0.5)
            kept = await owner.kept(old)
            if not seen or seen[-1] != kept:
                seen.append(kept)
                ready = (await owner.sizes()).get("ready", 0)
                assert ready >= 2 or not kept
        assert await owner.volumes() == {
            f"web-{each}": of(each, *names) for each in range(3)
        }
        assert await owner.sizes() == sizes(3, 3)
    assert seen == [
        ["web-0", "web-1", "web-2"],
        ["web-0", "web-1"],
        ["web-0"],
        [],
    ]
    assert await owner.failures() == []


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
    cluster: Cluster, owner: Owner, before: list[JSON], after: list[JSON]
) -> None:
    """As upstream: a pod may use more claims, and claims that exist are not made."""
    names = [each["metadata"]["name"] for each in before]
    async with running(cluster):
        old = await owner.replace(before, after)
        await settle(60)
        assert await owner.kept(old) == list(old)
        assert await owner.sizes() == sizes(3, 3)
        assert await owner.volumes() == {
            f"web-{each}": of(each, *names) for each in range(3)
        }
    assert await owner.failures() == []


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_the_strategy_on_delete_leaves_pods_with_other_claims(
    cluster: Cluster, owner: Owner, policy: str
) -> None:
    """The set grows and shrinks; a pod that a user deletes comes with its claims."""
    both = ("data", "wal")
    async with running(cluster):
        old = await owner.replace(
            [DATA], [DATA, WAL], updateStrategy=ON_DELETE, podManagementPolicy=policy
        )
        await settle(60)
        assert await owner.kept(old) == list(old)
        assert await owner.sizes() == sizes(3, 0)
        assert await owner.claims() == [f"data-web-{each}" for each in range(3)]
        await owner.edit(replicas=5)
        await settle(60)
        assert await owner.kept(old) == list(old)
        assert await owner.sizes() == sizes(5, 2)
        await owner.client.delete(PODS, "default", "web-1")
        await settle(60)
        assert await owner.volumes() == {
            "web-0": of(0, "data"),
            "web-1": of(1, *both),
            "web-2": of(2, "data"),
            "web-3": of(3, *both),
            "web-4": of(4, *both),
        }
        assert await owner.sizes() == sizes(5, 3)
        await owner.edit(replicas=1)
        await settle(240)
        assert await owner.kept(old) == ["web-0"]
        assert await owner.sizes() == sizes(1, 0)
    assert await owner.failures() == []


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_pods_below_the_partition_keep_their_claims(
    cluster: Cluster, owner: Owner, policy: str
) -> None:
    """Until the partition is lowered, or the pod is lost."""
    async with running(cluster):
        old = await owner.replace(
            [DATA], [DATA, WAL], updateStrategy=rolling(2), podManagementPolicy=policy
        )
        await settle(60)
        assert await owner.kept(old) == ["web-0", "web-1"]
        assert await owner.sizes() == sizes(3, 1)
        await owner.client.delete(PODS, "default", "web-0")
        await settle(60)
        assert await owner.kept(old) == ["web-1"]
        assert await owner.sizes() == sizes(3, 2)
        await owner.edit(updateStrategy=rolling(0))
        await settle(60)
        assert await owner.kept(old) == []
        assert await owner.sizes() == sizes(3, 3)
    assert await owner.failures() == []


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_scaling_comes_before_the_replacement_of_pods_with_other_claims(
    cluster: Cluster, owner: Owner, policy: str
) -> None:
    """As for each update: missing pods are created first."""
    async with running(cluster):
        old = await owner.replace(
            [DATA], [DATA, WAL], replicas=5, podManagementPolicy=policy
        )
        for _ in range(120):
            await settle(0.5)
            if len(await owner.uids()) == 5:
                break
            assert await owner.kept(old) == list(old)
        await settle(240)
        assert await owner.kept(old) == []
        assert await owner.sizes() == sizes(5, 5)
    assert await owner.failures() == []


async def test_a_smaller_set_deletes_pods_with_other_claims_first(
    cluster: Cluster, owner: Owner
) -> None:
    """They are above the ordinals; then the others are replaced."""
    async with running(cluster):
        await owner.replace([DATA], [DATA, WAL], replicas=2)
        await settle(240)
        both = ("data", "wal")
        assert await owner.volumes() == {
            "web-0": of(0, *both),
            "web-1": of(1, *both),
        }
        assert await owner.sizes() == sizes(2, 2)
        claims = [*(f"data-web-{each}" for each in range(3)), *of(0, "wal")]
        assert await owner.claims() == [*claims, *of(1, "wal")]
    assert await owner.failures() == []


async def test_a_template_that_changes_with_the_claims_replaces_each_pod_once(
    cluster: Cluster, owner: Owner
) -> None:
    """Both make the pods those of an old revision."""
    async with running(cluster) as recording:
        await owner.replace([DATA], [DATA, WAL], template=template("app:v2"))
        await settle(240)
        assert await owner.sizes() == sizes(3, 3)
    deleted = [
        each.path.rpartition("/")[2]
        for each in recording.writes
        if each.method == "DELETE" and "/pods/" in each.path
    ]
    assert deleted == ["web-2", "web-1", "web-0"]


async def test_claims_of_pods_with_other_claims_follow_the_retention_policy(
    cluster: Cluster, owner: Owner
) -> None:
    """Also while OnDelete leaves such a pod, and once it is scaled away."""
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    async with running(cluster):
        await owner.replace(
            [DATA],
            [DATA, WAL],
            updateStrategy=ON_DELETE,
            persistentVolumeClaimRetentionPolicy=policy,
        )
        await settle(60)
        page = await owner.client.list_page(CLAIMS)
        owners = {
            each.metadata.name: [
                one.kind for one in each.metadata.owner_references or ()
            ]
            for each in page.items
        }
        assert owners == {f"data-web-{each}": ["StatefulSet"] for each in range(3)}
        await owner.edit(replicas=1)
        await settle(240)
        assert await owner.claims() == ["data-web-0"]
    assert await owner.failures() == []


async def test_a_pod_with_other_claims_gets_its_name_label_back(
    cluster: Cluster, owner: Owner
) -> None:
    """Its labels may be changed, only its volumes may not."""
    async with running(cluster):
        old = await owner.replace([DATA], [DATA, WAL], updateStrategy=ON_DELETE)
        await settle(10)
        await owner.patch(PODS, "web-1", {"metadata": {"labels": {NAME_LABEL: None}}})
        await settle(10)
        pod = await owner.client.get(PODS, "default", "web-1")
        assert labels_of(pod)[NAME_LABEL] == "web-1"
        assert await owner.kept(old) == list(old)
        (event,) = await owner.events("SuccessfulUpdate")
    assert event.message == "Update Pod web-1 in StatefulSet web successful"
    assert await owner.failures() == []


async def test_a_pod_with_other_claims_that_has_failed_is_replaced(
    cluster: Cluster, owner: Owner
) -> None:
    """With OnDelete, too, as each pod that has failed."""
    async with running(cluster):
        old = await owner.replace([DATA], [DATA, WAL], updateStrategy=ON_DELETE)
        await settle(10)
        await owner.client.patch(
            PODS,
            "default",
            "web-1",
            {"status": {"phase": "Failed"}},
            subresource="status",
        )
        await settle(60)
        assert await owner.kept(old) == ["web-0", "web-2"]
        assert await owner.sizes() == sizes(3, 1)


async def test_several_pods_with_other_claims_are_replaced_at_a_time() -> None:
    """As many as maxUnavailable allows, with its gate."""
    cluster = Cluster(features=FeatureGates({"MaxUnavailableStatefulSet": True}))
    owner = Owner(cluster)
    async with running(cluster, feature_gates="MaxUnavailableStatefulSet=true"):
        old = await owner.replace(
            [DATA],
            [DATA, WAL],
            updateStrategy=rolling(maxUnavailable=2),
            podManagementPolicy="Parallel",
        )
        seen = [list(old)]
        for _ in range(240):
            await settle(0.5)
            if (kept := await owner.kept(old)) != seen[-1]:
                seen.append(kept)
        await settle(60)
        assert await owner.sizes() == sizes(3, 3)
    assert seen == [["web-0", "web-1", "web-2"], ["web-0"], []]


async def test_another_manager_goes_on_with_the_replacement(
    cluster: Cluster, owner: Owner
) -> None:
    """Nothing about these pods is kept in memory."""
    async with running(cluster):
        old = await owner.replace([DATA], [DATA, WAL])
        for _ in range(120):
            await settle(0.5)
            if await owner.kept(old) == ["web-0", "web-1"]:
                break
    async with running(cluster):
        await settle(240)
        assert await owner.kept(old) == []
        assert await owner.sizes() == sizes(3, 3)
    assert await owner.failures() == []
