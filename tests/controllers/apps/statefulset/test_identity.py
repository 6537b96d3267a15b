"""Names, ordinals, claims, and bodies of pods."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS, requested_storage
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import compile_selector
from controller_manager.controllers.apps.statefulset.identity import (
    ClaimChanges,
    claim_changes,
    claim_names,
    claim_prefixes,
    lacks_new_claims,
    missing_claims,
    ordinal_of,
    ordinals,
    parent_and_ordinal,
)
from controller_manager.controllers.apps.statefulset.ordering import PodWork
from controller_manager.controllers.apps.statefulset.pod_control import (
    ClaimProblem,
    Outdated,
    StatefulPodControl,
    UnseenDeletions,
    claim_volumes,
    pod_body,
)
from controller_manager.controllers.apps.statefulset.replicas import (
    FoundPods,
    Revisions,
    Slot,
)
from tests.controllers.alone import Recorder
from tests.controllers.apps.statefulset.builders import (
    LATER,
    claim,
    claim_template,
    owner,
    pod,
    revision,
    stateful_set,
    stateful_set_json,
)
from tests.controllers.builders import template
from tests.controllers.user import User

SET = owner("StatefulSet", "web")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-0", ("web", 0)),
        ("web-12", ("web", 12)),
        ("my-web-2-3", ("my-web-2", 3)),
        ("web-2147483647", ("web", 2147483647)),
        ("web-2147483648", None),
        ("web-01", None),
        ("web-", None),
        ("web", None),
        ("web-x", None),
        ("-1", None),
        ("web-1\n", None),
    ],
)
def test_a_name_has_an_ordinal(name: str, expected: tuple[str, int] | None) -> None:
    """Only in the form in which the controller writes it."""
    assert parent_and_ordinal(name) == expected


def test_only_names_of_the_set_have_an_ordinal() -> None:
    """A longer name belongs to another set."""
    subject = stateful_set()
    names = ("web-1", "other-1", "web-x-1", "web-x")
    found = [ordinal_of(subject, pod(0, name=each)) for each in names]
    assert found == [1, None, None, None]
    assert list(ordinals(stateful_set(2, ordinals={"start": 5}))) == [5, 6]
    assert list(ordinals(stateful_set(0))) == []


def volumes(*names: str) -> list[JSON]:
    return [{"name": each, "emptyDir": {}} for each in names]


def test_a_pod_is_the_template_with_an_identity() -> None:
    """The claims' volumes come first; they replace volumes of the same name."""
    metadata: JSON = {"annotations": {"a": "b"}, "finalizers": ["example.com/hold"]}
    spec = {"containers": [{"name": "c", "image": "app:v1"}]}
    given = {
        "metadata": {"labels": {"app": "web"}, **metadata},
        "spec": {**spec, "volumes": volumes("data", "tmp")},
    }
    subject = stateful_set(template=given, volumeClaimTemplates=[claim_template()])
    body = pod_body(subject, subject.spec.template, "web-hash", 2)
    claimed = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}}
    assert msgspec.json.decode(body) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-2",
            "generateName": "web-",
            "namespace": "default",
            "labels": {
                "app": "web",
                "statefulset.kubernetes.io/pod-name": "web-2",
                "apps.kubernetes.io/pod-index": "2",
                "controller-revision-hash": "web-hash",
            },
            **metadata,
            "ownerReferences": [SET],
        },
        "spec": {
            **spec,
            "volumes": [claimed, *volumes("tmp")],
            "hostname": "web-2",
            "subdomain": "web-svc",
        },
    }


@pytest.mark.parametrize(
    ("name", "image"), [("web-old", "app:v0"), ("web-new", "app:v1"), ("x", "app:v1")]
)
def test_each_revision_has_its_template(name: str, image: str) -> None:
    """The update revision is the present template."""
    stored = (revision("web-old", 1, "app:v0"), revision("web-new", 2, "app:v2"))
    revisions = Revisions("web-old", "web-new", all=stored)
    found = revisions.template(stateful_set(), name)
    assert image.encode() in bytes(found.spec)


def test_a_set_without_a_service_has_pods_without_a_subdomain() -> None:
    """Even if the template has one; without claims the volumes are the template's."""
    spec = {"containers": [{"name": "c", "image": "app:v1"}]}
    for more in ({}, {"subdomain": "other", "hostname": "other"}):
        subject = stateful_set(serviceName="", template={"spec": {**spec, **more}})
        body = msgspec.json.decode(pod_body(subject, subject.spec.template, "h", 0))
        assert body["spec"] == {**spec, "hostname": "web-0"}


def test_a_claim_is_its_template_with_a_name_and_the_labels_of_the_selector() -> None:
    """Labels of expressions are not copied; the owner is there by policy."""
    template = claim_template(labels={"tier": "a", "app": "x"}, annotations={"a": "b"})
    subject = stateful_set(
        selector={
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}],
        },
        volumeClaimTemplates=[template, claim_template("logs")],
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"},
    )
    (made,) = missing_claims(subject, 1, {"logs-web-1": claim("logs-web-1")})
    assert msgspec.json.decode(msgspec.json.encode(made)) == {
        "metadata": {
            "name": "data-web-1",
            "namespace": "default",
            "labels": {"tier": "a", "app": "web"},
            "annotations": {"a": "b"},
            "ownerReferences": [SET],
        },
        "spec": template["spec"],
    }


def test_of_two_claim_templates_of_one_name_the_last_one_wins() -> None:
    """The API server takes them; a pod with two volumes of one name it refuses."""
    larger = claim_template()
    larger["spec"]["resources"]["requests"]["storage"] = "2Gi"
    templates = [claim_template(), claim_template("logs"), larger]
    subject = stateful_set(1, volumeClaimTemplates=templates)
    made = missing_claims(subject, 0, {})
    assert [(each.metadata.name, requested_storage(each)) for each in made] == [
        ("data-web-0", "2Gi"),
        ("logs-web-0", "1Gi"),
    ]
    assert claim_names(subject, 0) == ("data-web-0", "logs-web-0")
    assert list(claim_prefixes(subject)) == ["default/data-web", "default/logs-web"]
    volumes = claim_volumes(subject, 0)
    assert [each["name"] for each in volumes] == ["data", "logs"]


def test_the_claims_of_a_pod_are_found_by_their_names() -> None:
    templates = [claim_template(), claim_template("logs")]
    subject = stateful_set(created=LATER, volumeClaimTemplates=templates)
    both = pod(1, claims=("logs-web-1", "data-web-1"))
    assert not lacks_new_claims(subject, both)
    assert lacks_new_claims(subject, pod(1, claims=("data-web-1",)))
    assert lacks_new_claims(subject, pod(1, claims=("data-web-0", "logs-web-1")))
    leaving = claim("data-web-1", deletionTimestamp="2026-01-01T00:00:00Z")
    claims = {"data-web-1": leaving, "logs-web-1": claim("logs-web-1")}
    assert claim_changes(subject, 1, claims, both).deleting == ("data-web-1",)
    assert claim_changes(subject, 1, claims, None).deleting == ("data-web-1",)
    assert set(claim_prefixes(subject)) == {"default/data-web", "default/logs-web"}


WORK = ClaimChanges(owners=("data-web-0",))


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

    async def hold(self, resource: Any, name: str) -> None:
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await self.user.patch(resource, name, hold)
        await self.client.delete(resource, "default", name)


@pytest.fixture
def setting(user: User) -> Setting:
    return Setting(user)


@pytest.mark.looptime
@pytest.mark.parametrize("change", ["deleted", "scaled", "made anew"])
async def test_a_changed_set_gives_no_owner(setting: Setting, change: str) -> None:
    """It may have been scaled up again, or be deleted with its claims kept.

    One of that name may have the same generation, but not the same uid.
    """
    control = await setting.prepare()
    if change == "deleted":
        await setting.hold(STATEFUL_SETS, "web")
    elif change == "scaled":
        await setting.user.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 5}})
    else:
        await setting.client.delete(STATEFUL_SETS, "default", "web")
        await setting.user.create(STATEFUL_SETS, setting.obj)
    with pytest.raises(Outdated, match="StatefulSet default/web has just changed"):
        await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == []


@pytest.mark.looptime
async def test_the_set_is_read_once_unless_it_must_be_again(setting: Setting) -> None:
    """A phase of many pods may take long, and the set may change in the meantime."""
    control = await setting.prepare()
    unowned: JSON = {"metadata": {"ownerReferences": None}}
    for spec in ({}, {"replicas": 0}):
        await setting.user.patch(STATEFUL_SETS, "web", {"spec": spec})
        await control.correct_owners(setting.pod, WORK)
        assert await setting.owners() == [setting.set.metadata.uid]
        await setting.user.patch(CLAIMS, "data-web-0", unowned)
    control.check_set_again()
    with pytest.raises(Outdated):
        await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == []


@pytest.mark.looptime
async def test_a_pod_that_is_gone_becomes_no_owner(setting: Setting) -> None:
    """The claim would be deleted at once, though the pod may be wanted again."""
    control = await setting.prepare(replicas=0)
    await setting.client.delete(PODS, "default", "web-0")
    await control.correct_owners(setting.pod, WORK)
    assert await setting.owners() == []


@pytest.mark.looptime
async def test_a_claim_that_the_cache_does_not_show_is_used(setting: Setting) -> None:
    """Unless it is being deleted: then its pod must wait. All problems are told."""
    control = await setting.prepare()
    work = ClaimChanges(missing=missing_claims(setting.set, 0, {}))
    await control.create_claims("web-0", work)
    assert setting.recorder.events == []
    await setting.hold(CLAIMS, "data-web-0")
    with pytest.raises(ClaimProblem, match=r"^pvc data-web-0 is being deleted$"):
        await control.create_claims("web-0", work)
    with pytest.raises(ClaimProblem) as raised:
        await control.create_claims("web-0", ClaimChanges(deleting=("a", "b")))
    assert str(raised.value) == "[pvc a is being deleted, pvc b is being deleted]"


@pytest.mark.looptime
async def test_a_repaired_pending_pod_reports_no_conflicts(setting: Setting) -> None:
    """They were reported when its claims were made; no claim of it changes now."""
    control = await setting.prepare()
    claims = ClaimChanges(conflicts=("data-web-0",))
    slot = Slot(0, "web-0", setting.pod)
    work = PodWork(slot, claims=claims, restores_identity=True)
    await control.update_pod(setting.pod, work)
    message = "Update Pod web-0 in StatefulSet web successful"
    assert setting.recorder.events == [("Normal", "SuccessfulUpdate", message)]


@pytest.mark.parametrize(
    ("uid", "controller", "app", "terminating", "lacks"),
    [
        ("found", "web", "web", False, False),
        ("later", "web", "web", False, True),
        ("later", "web", "", True, True),
        ("later", "other", "web", False, False),
        ("later", "", "web", False, True),
        ("later", "", "web", True, False),
        ("later", "", "other", False, False),
    ],
)
def test_a_pod_that_appears_after_the_list_of_pods_is_told_from_a_foreign_one(
    uid: str, controller: str, app: str, *, terminating: bool, lacks: bool
) -> None:
    subject = stateful_set(1)
    owners = [owner("StatefulSet", "web", controller)] if controller else None
    labels = {"app": app}
    found = pod(0, uid=uid, labels=labels, terminating=terminating, owners=owners)
    selector = compile_selector(subject.spec.selector)
    assert FoundPods(subject, selector, (), (), {"found"}).lacks(found) is lacks
