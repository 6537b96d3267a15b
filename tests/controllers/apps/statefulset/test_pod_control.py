"""Claims get no owner from a stale cache: they would be deleted with it."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.apps.statefulset.identity import (
    ClaimChanges,
    missing_claims,
)
from controller_manager.controllers.apps.statefulset.ordering import PodWork
from controller_manager.controllers.apps.statefulset.pod_control import (
    ClaimProblem,
    Outdated,
    StatefulPodControl,
    UnseenDeletions,
)
from controller_manager.controllers.apps.statefulset.replicas import Revisions, Slot
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    stateful_set_json,
)
from tests.controllers.builders import template
from tests.controllers.user import User

pytestmark = pytest.mark.looptime

WORK = ClaimChanges(owners=("data-web-0",))


class Recorder:
    """Keeps the messages of events."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def event(self, *parts: Any) -> None:
        self.messages.append(parts[-1])


class Setting:
    """A set whose policy is Delete, a pod of it, and its claim without owners."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.client = user.client
        self.recorder = Recorder()

    async def prepare(self, replicas: int = 1) -> StatefulPodControl:
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        self.obj = stateful_set_json(
            replicas=replicas,
            volumeClaimTemplates=[claim_template()],
            persistentVolumeClaimRetentionPolicy=policy,
        )
        self.set = await self.user.create(STATEFUL_SETS, self.obj)
        pod = {"metadata": {"name": "web-0"}, "spec": template()["spec"]}
        self.pod = await self.user.create(PODS, pod)
        claim = {**claim_template(), "metadata": {"name": "data-web-0"}}
        await self.user.create(CLAIMS, claim)
        return StatefulPodControl(
            self.client,
            self.recorder,
            UnseenDeletions(lambda *_: None),
            self.set,
            Revisions.recorded(self.set),
        )

    async def owners(self) -> list[str]:
        claim = await self.client.get(CLAIMS, "default", "data-web-0")
        return [each.uid for each in claim.metadata.owner_references or ()]


@pytest.fixture
def setting(user: User) -> Setting:
    return Setting(user)


async def test_the_set_becomes_the_owner_of_its_claims(setting: Setting) -> None:
    """Everything is as it is cached."""
    control = await setting.prepare()
    await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == [setting.set.metadata.uid]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"finalizers": ["example.com/hold"]}},
        {"spec": {"replicas": 5}},
    ],
    ids=["deleted", "changed"],
)
async def test_a_set_that_has_changed_gives_no_owner(
    setting: Setting, change: JSON
) -> None:
    """It may have been scaled up again, or be deleted with its claims kept."""
    control = await setting.prepare()
    await setting.user.patch(STATEFUL_SETS, "web", change)
    if "metadata" in change:
        await setting.client.delete(STATEFUL_SETS, "default", "web")
    with pytest.raises(Outdated, match="StatefulSet default/web has just changed"):
        await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == []


async def test_a_set_of_that_name_made_anew_is_another_one(setting: Setting) -> None:
    """Its generation may be the same, its uid is not."""
    control = await setting.prepare()
    await setting.client.delete(STATEFUL_SETS, "default", "web")
    await setting.user.create(STATEFUL_SETS, setting.obj)
    with pytest.raises(Outdated):
        await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == []


async def test_the_set_is_read_once_unless_it_is_to_be_read_again(
    setting: Setting,
) -> None:
    """A phase of many pods may take long, and the set may change in the meantime."""
    control = await setting.prepare()
    await control.correct_owners(setting.pod, WORK)
    await setting.user.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 0}})
    unowned: JSON = {"metadata": {"ownerReferences": None}}
    await setting.user.patch(CLAIMS, "data-web-0", unowned)
    await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == [setting.set.metadata.uid]
    await setting.user.patch(CLAIMS, "data-web-0", unowned)
    control.check_set_again()
    with pytest.raises(Outdated):
        await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == []


async def test_a_pod_that_is_gone_becomes_no_owner(setting: Setting) -> None:
    """The claim would be deleted at once, though the pod may be wanted again."""
    control = await setting.prepare(replicas=0)
    await setting.client.delete(PODS, "default", "web-0")
    await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == []


async def test_a_claim_that_the_cache_does_not_show_is_used(setting: Setting) -> None:
    """Unless it is being deleted: then its pod must wait."""
    control = await setting.prepare()
    work = ClaimChanges(missing=missing_claims(setting.set, 0, {}))
    await control.create_claims("web-0", work)
    assert setting.recorder.messages == []
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await setting.user.patch(CLAIMS, "data-web-0", hold)
    await setting.client.delete(CLAIMS, "default", "data-web-0")
    with pytest.raises(ClaimProblem, match=r"^pvc data-web-0 is being deleted$"):
        await control.create_claims("web-0", work)


async def test_a_pending_pod_that_gets_its_identity_back_reports_no_conflicts(
    setting: Setting,
) -> None:
    """They were reported when its claims were made; no claim of it changes now."""
    control = await setting.prepare()
    slot = Slot(0, "web-0", setting.pod)
    claims = ClaimChanges(conflicts=("data-web-0",))
    work = PodWork(slot, claims=claims, restores_identity=True)
    await control.update_pod(setting.pod, work)
    message = "Update Pod web-0 in StatefulSet web successful"
    assert setting.recorder.messages == [message]


async def test_all_problems_of_claims_are_in_one_error(setting: Setting) -> None:
    """As in upstream's aggregated errors."""
    control = await setting.prepare()
    with pytest.raises(ClaimProblem) as raised:
        await control.create_claims("web-0", ClaimChanges(deleting=("a", "b")))
    assert str(raised.value) == "[pvc a is being deleted, pvc b is being deleted]"
