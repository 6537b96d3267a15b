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
from controller_manager.api.meta import is_deleting
from controller_manager.cli.flags import make_config as config_from_flags
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.controllers.apps.statefulset.identity import (
    corrected_owners,
    has_conflict,
    missing_claims,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.apps.statefulset.builders import (
    claim,
    claim_template,
    owner,
    pod,
    rolling,
    stateful_set,
    stateful_set_json,
)
from tests.controllers.user import User, settle

DATA: Final = claim_template()
WAL: Final = claim_template("wal")
ON_DELETE: Final = {"type": "OnDelete"}


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
def user(cluster: Cluster) -> Owner:
    return Owner(cluster)


@pytest.mark.looptime
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
    cluster: Cluster, user: Owner, policy: str, before: list[JSON], after: list[JSON]
) -> None:
    """The highest ordinal first; no pod waits for a change that is refused."""
    names = [each["metadata"]["name"] for each in after]
    async with running(cluster):
        old = await user.replace(before, after, podManagementPolicy=policy)
        seen: list[list[str]] = []
        for _ in range(400):
            await settle(0.5)
            kept = await user.kept(old)
            if not seen or seen[-1] != kept:
                seen.append(kept)
                ready = (await user.sizes()).get("ready", 0)
                assert ready >= 2 or not kept
        assert await user.volumes() == {
            f"web-{each}": of(each, *names) for each in range(3)
        }
        assert await user.sizes() == sizes(3, 3)
    assert seen == [
        ["web-0", "web-1", "web-2"],
        ["web-0", "web-1"],
        ["web-0"],
        [],
    ]
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
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
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


@pytest.mark.looptime
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_pods_below_the_partition_keep_their_claims(
    cluster: Cluster, user: Owner, policy: str
) -> None:
    """Until the partition is lowered, or the pod is lost."""
    async with running(cluster):
        old = await user.replace(
            [DATA], [DATA, WAL], updateStrategy=rolling(2), podManagementPolicy=policy
        )
        await settle(60)
        assert await user.kept(old) == ["web-0", "web-1"]
        assert await user.sizes() == sizes(3, 1)
        await user.client.delete(PODS, "default", "web-0")
        await settle(60)
        assert await user.kept(old) == ["web-1"]
        assert await user.sizes() == sizes(3, 2)
        await user.edit(updateStrategy=rolling(0))
        await settle(60)
        assert await user.kept(old) == []
        assert await user.sizes() == sizes(3, 3)
    assert await user.failures() == []


@pytest.mark.looptime
async def test_several_pods_with_other_claims_are_replaced_at_a_time() -> None:
    """As many as maxUnavailable allows, with its gate."""
    cluster = Cluster(features=FeatureGates({"MaxUnavailableStatefulSet": True}))
    user = Owner(cluster)
    async with running(cluster, feature_gates="MaxUnavailableStatefulSet=true"):
        old = await user.replace(
            [DATA],
            [DATA, WAL],
            updateStrategy=rolling(maxUnavailable=2),
            podManagementPolicy="Parallel",
        )
        seen = [list(old)]
        for _ in range(240):
            await settle(0.5)
            if (kept := await user.kept(old)) != seen[-1]:
                seen.append(kept)
        await settle(60)
        assert await user.sizes() == sizes(3, 3)
    assert seen == [["web-0", "web-1", "web-2"], ["web-0"], []]


SET = owner("StatefulSet", "web")
OTHER = owner("Database", "db")
BYSTANDER = owner("ConfigMap", "note", controller=False)


def policy(deleted: str, scaled: str) -> dict[str, Any]:
    given = {"whenDeleted": deleted, "whenScaled": scaled}
    return {"persistentVolumeClaimRetentionPolicy": given}


def corrected(ordinal: int, *owners: JSON, **spec: Any) -> list[str] | None:
    """Return the kinds of the corrected owners of a claim, `None` if they are right.

    The set wants one pod, so the pod 1 is condemned.
    """
    subject, of_pod = stateful_set(1, **spec), pod(ordinal)
    found = corrected_owners(claim("c", *owners), subject, of_pod)
    return None if found is None else [each.kind for each in found]


@pytest.mark.parametrize(
    ("deleted", "scaled", "wanted", "condemned"),
    [
        ("Retain", "Retain", [], []),
        ("Delete", "Retain", ["StatefulSet"], ["StatefulSet"]),
        ("Retain", "Delete", [], ["Pod"]),
        ("Delete", "Delete", ["StatefulSet"], ["Pod"]),
    ],
)
def test_each_policy_has_its_owners(
    deleted: str, scaled: str, wanted: list[str], condemned: list[str]
) -> None:
    """From any owners that the claim had under an earlier policy."""
    spec = policy(deleted, scaled)
    for ordinal, expected in ((0, wanted), (1, condemned)):
        of_pod = owner("Pod", f"web-{ordinal}")
        for before in ([], [SET], [of_pod], [SET, of_pod]):
            kinds = [each["kind"] for each in before]
            result = None if kinds == expected else expected
            assert corrected(ordinal, *before, **spec) == result


def test_without_a_policy_claims_are_retained() -> None:
    """An old API server sets no default."""
    assert corrected(0) is None
    assert corrected(0, SET) == []


def test_other_owners_stay_beside() -> None:
    """The controller does not change references to others."""
    spec = policy("Delete", "Retain")
    assert corrected(0, BYSTANDER, **spec) == ["ConfigMap", "StatefulSet"]
    assert corrected(0, BYSTANDER, SET, **policy("Retain", "Retain")) == ["ConfigMap"]


def created(*owners: JSON, **spec: Any) -> list[str]:
    """Return the kinds of the owners of a new claim whose template has `owners`."""
    templates = [claim_template(ownerReferences=list(owners))]
    subject = stateful_set(1, volumeClaimTemplates=templates, **spec)
    (made,) = missing_claims(subject, 0, {})
    return [each.kind for each in made.metadata.owner_references or ()]


def test_a_new_claim_has_the_owners_of_its_template() -> None:
    """Operators write them, so that the claims are deleted with their object."""
    retained, deleted = policy("Retain", "Retain"), policy("Delete", "Retain")
    assert created(OTHER, **retained) == ["Database"]
    assert created(BYSTANDER, **deleted) == ["ConfigMap", "StatefulSet"]
    assert created(SET, **deleted) == ["StatefulSet"]
    # The API server refuses a second controller.
    assert created(OTHER, **deleted) == ["Database"]


def test_an_owner_that_is_no_controller_becomes_one() -> None:
    """As upstream writes it."""
    weak = owner("StatefulSet", "web", controller=False)
    assert corrected(0, weak, **policy("Delete", "Retain")) == ["StatefulSet"]


def test_a_claim_of_another_controller_is_left_to_it() -> None:
    """References to the set and the pod are removed, none are added."""
    spec = policy("Delete", "Delete")
    assert corrected(0, OTHER, **spec) is None
    assert corrected(0, OTHER, SET, **spec) == ["Database"]
    assert has_conflict(claim("c", OTHER), stateful_set(**spec), pod(0))
    retained = policy("Retain", "Retain")
    assert not has_conflict(claim("c", OTHER), stateful_set(**retained), pod(0))


@pytest.mark.parametrize("kind", [("StatefulSet", "web"), ("Pod", "web-0")])
def test_a_claim_of_an_earlier_namesake_is_not_touched(kind: tuple[str, str]) -> None:
    """The garbage collector deletes it, or removes that owner."""
    earlier = owner(*kind, "earlier")
    for deleted in ("Retain", "Delete"):
        assert corrected(0, earlier, **policy(deleted, "Retain")) is None
