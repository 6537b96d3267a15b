"""Revisions, their annotations, and the limit of their number."""

import msgspec
import pytest

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
)
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import ObjectMeta, raw_json
from controller_manager.controllers.apps.deployment.revisions import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    beyond_history_limit,
    rollback_target,
    synced_annotations,
)
from controller_manager.controllers.apps.deployment.rollout import (
    Rollout,
    equal_ignoring_hash,
    find_rollout,
    new_replica_set,
    template_hash,
)
from controller_manager.controllers.apps.deployment.scaling import (
    desired_annotation,
    max_annotation,
)
from tests.clusters import Cluster
from tests.controllers.builders import (
    deployment,
    deployment_json,
    replica_set,
    template,
)
from tests.controllers.user import User, settle


def annotated(**annotations: str) -> Rollout:
    subject = deployment()
    metadata = msgspec.structs.replace(subject.metadata, annotations=annotations)
    return Rollout(msgspec.structs.replace(subject, metadata=metadata), None, ())


def test_all_annotations_but_the_controllers_own_are_inherited() -> None:
    """Annotations that the deployment does not have any more stay."""
    parent = annotated(
        **{
            "kubernetes.io/change-cause": "x",
            REVISION: "9",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "deprecated.deployment.rollback.to": "1",
        }
    ).deployment
    assert synced_annotations(parent, {"kept": "y"}, 3) == {
        "kept": "y",
        "kubernetes.io/change-cause": "x",
        REVISION: "3",
    }


def test_an_older_revision_is_added_to_the_history() -> None:
    """The history of a reused replica set grows; a higher revision stays."""
    parent = annotated().deployment
    assert synced_annotations(parent, {REVISION: "1"}, 3) == {
        REVISION: "3",
        REVISION_HISTORY: "1",
    }
    assert synced_annotations(parent, {REVISION: "3", REVISION_HISTORY: "1"}, 5) == {
        REVISION: "5",
        REVISION_HISTORY: "1,3",
    }
    assert synced_annotations(parent, {REVISION: "7"}, 3) == {REVISION: "7"}


def test_the_history_is_cut_from_its_oldest_end() -> None:
    """At 2,000 characters."""
    history = ",".join(str(n) for n in range(100, 600))
    result = synced_annotations(
        annotated().deployment, {REVISION: "600", REVISION_HISTORY: history}, 601
    )
    kept = result[REVISION_HISTORY].split(",")
    assert len(result[REVISION_HISTORY]) <= 2000
    assert (kept[0], kept[-1], len(kept)) == ("101", "600", 500)


def test_the_last_revision_is_the_second_highest() -> None:
    """An undo without a number goes back to it."""
    sets = tuple(replica_set(f"r{n}", 0, revision=n) for n in (1, 4, 3))
    assert rollback_target(Rollout(deployment(), None, sets), 0) is sets[2]
    assert rollback_target(Rollout(deployment(), None, sets[:1]), 0) is None


def test_only_empty_old_replica_sets_beyond_the_limit_go_oldest_first() -> None:
    """Those with pods, or not yet observed, stay."""
    olds = tuple(
        replica_set(f"r{n}", 1 if n == 2 else 0, revision=n) for n in range(1, 6)
    )
    rollout = Rollout(deployment(revisionHistoryLimit=1), None, olds)
    assert [each.metadata.name for each in beyond_history_limit(rollout)] == [
        "r1",
        "r3",
        "r4",
    ]
    everything = Rollout(deployment(revisionHistoryLimit=5), None, olds)
    assert beyond_history_limit(everything) == ()
    assert beyond_history_limit(Rollout(deployment(), None, olds)) == ()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("3", 3),
        ("+3", 3),
        ("003", 3),
        ("\u0663", None),
        ("2147483648", None),
        ("9" * 5000, None),
        ("", None),
        (None, None),
    ],
)
def test_the_size_at_the_last_scaling_is_read_as_upstream_reads_it(
    text: str | None, size: int | None
) -> None:
    """Users can write the annotation; one that is no number is as good as none."""
    annotations = {} if text is None else {DESIRED_REPLICAS: text, MAX_REPLICAS: text}
    scaled = replica_set("rs", 3)
    metadata = msgspec.structs.replace(scaled.metadata, annotations=annotations)
    scaled = msgspec.structs.replace(scaled, metadata=metadata)
    assert (desired_annotation(scaled), max_annotation(scaled)) == (size, size)


@pytest.mark.parametrize(
    ("own", "result"),
    [
        ("", {REVISION: "3"}),
        ("+2", {REVISION: "3", REVISION_HISTORY: "+2"}),
        ("two", {REVISION: "two"}),
        ("\u0662", {REVISION: "\u0662"}),
        ("9" * 5000, {REVISION: "9" * 5000}),
    ],
)
def test_a_revision_that_a_user_wrote_is_read_as_upstream_reads_it(
    own: str, result: dict[str, str]
) -> None:
    """An empty one counts as none, and one that is no number stays as it is."""
    parent = annotated().deployment
    assert synced_annotations(parent, {REVISION: own}, 3) == result


@pytest.mark.looptime
async def test_an_undo_without_progress_misses_its_deadline(
    cluster: Cluster, user: User
) -> None:
    """Even if its replica set is not new (upstream never reports it)."""
    async with cluster.nodes() as _, cluster.manager():
        obj = deployment_json(replicas=2, progressDeadlineSeconds=30)
        obj["spec"]["template"] = template("broken:v1", app="web")
        await user.create(DEPLOYMENTS, obj)
        await settle()
        await user.set_image("app:v2")
        await settle(60)
        assert (await user.conditions())["Progressing"][1] == "NewReplicaSetAvailable"
        await user.set_image("broken:v1")
        await settle(100)
        assert (await user.conditions())["Progressing"] == (
            "False",
            "ProgressDeadlineExceeded",
        )


@pytest.mark.looptime
@pytest.mark.parametrize(("asked", "image"), [("1", "app:v1"), ("0", "app:v2")])
async def test_the_rollback_annotation_restores_a_revision(
    cluster: Cluster, user: User, asked: str, image: str
) -> None:
    """With a revision number, or with 0 for the last; annotations are restored, too."""
    async with cluster.nodes(), cluster.manager():
        obj = deployment_json()
        obj["metadata"]["annotations"] = {"kubernetes.io/change-cause": "app:v1"}
        await user.create(DEPLOYMENTS, obj)
        await settle()
        for version in ("app:v2", "app:v3"):
            cause = {"kubernetes.io/change-cause": version}
            await user.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": cause}})
            await user.set_image(version)
            await settle()
        request = {"deprecated.deployment.rollback.to": asked}
        await user.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": request}})
        await settle()
        subject = await user.client.get_json(DEPLOYMENTS, "default", "web")
        assert subject["spec"]["template"]["spec"]["containers"][0]["image"] == image
        assert subject["metadata"]["annotations"] == {
            "kubernetes.io/change-cause": image,
            REVISION: "4",
        }
        (event,) = await user.events("DeploymentRollback")
        revision = image[-1]
        assert event.message == f'Rolled back deployment "web" to revision {revision}'


@pytest.mark.looptime
async def test_a_pause_keeps_the_revision_that_a_rollback_waits_for(
    cluster: Cluster, user: User
) -> None:
    """Even if revisionHistoryLimit is lower."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        await user.set_image("app:v2")
        await settle()
        request = {"deprecated.deployment.rollback.to": "1"}
        await user.patch(
            DEPLOYMENTS,
            "web",
            {
                "metadata": {"annotations": request},
                "spec": {"paused": True, "revisionHistoryLimit": 0},
            },
        )
        await settle()
        assert sorted(await user.replica_sets()) == ["1", "2"]
        await user.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
        await settle(60)
        subject = await user.client.get_json(DEPLOYMENTS, "default", "web")
        assert subject["spec"]["template"]["spec"]["containers"][0]["image"] == "app:v1"
        assert sorted(await user.replica_sets()) == ["3"]


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        (
            "9",
            "DeploymentRollbackRevisionNotFound",
            "Unable to find the revision to rollback to.",
        ),
        (
            "0",
            "DeploymentRollbackRevisionNotFound",
            "Unable to find last revision.",
        ),
        (
            "1",
            "DeploymentRollbackTemplateUnchanged",
            (
                "The rollback revision contains the same template as current "
                'deployment "web"'
            ),
        ),
    ],
)
async def test_a_rollback_that_is_not_possible_is_explained(
    cluster: Cluster, user: User, asked: str, reason: str, message: str
) -> None:
    """The annotation is removed, the template stays."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        request = {"deprecated.deployment.rollback.to": asked}
        await user.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": request}})
        await settle()
        (event,) = await user.events(reason)
        assert (event.type, event.message) == ("Warning", message)
        metadata = (await user.deployment()).metadata
        assert metadata.annotations == {REVISION: "1"}


@pytest.mark.looptime
@pytest.mark.parametrize("revision", ["-1", "+7"])
async def test_a_rollback_to_a_revision_that_cannot_be_is_refused(
    cluster: Cluster, user: User, revision: str
) -> None:
    """The annotation is removed; one that is no number at all is ignored."""
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json(replicas=1))
        await settle()
        for text in ("first", revision):
            annotations = {"deprecated.deployment.rollback.to": text}
            patch = {"metadata": {"annotations": annotations}}
            await user.patch(DEPLOYMENTS, "web", patch)
            await settle()
            found = (await user.deployment()).metadata.annotations or {}
            stays = found.get("deprecated.deployment.rollback.to")
            assert stays == (text if text == "first" else None)
        (event,) = await user.events("DeploymentRollbackRevisionNotFound")
        assert event.message == "Unable to find the revision to rollback to."


def made(spec: object, **labels: str) -> PodTemplateSpec:
    metadata = ObjectMeta(labels=labels or None)
    return PodTemplateSpec(metadata=metadata, spec=raw_json(spec))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1, "b": None}, {"a": 1}, True),
        ({"a": 1, "b": []}, {"a": 1}, True),
        ({"nodeSelector": {}}, {}, True),
        ({"containers": [{"resources": {}, "x": None}]}, {"containers": [{}]}, True),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"v": [{"emptyDir": {}}]}, {"v": [{}]}, False),
        ({"a": 0}, {}, False),
        ({"a": ""}, {"a": "x"}, False),
    ],
)
def test_templates_are_equal_if_they_make_the_same_pods(
    one: object, other: object, equal: bool
) -> None:
    """Absent, null and empty are alike; the order of keys does not matter."""
    assert equal_ignoring_hash(made(one), made(other)) is equal


def test_the_hash_label_does_not_count_but_other_labels_do() -> None:
    """It is what the controller itself adds."""
    plain = made({}, app="web")
    hashed = made({}, **{"app": "web", "pod-template-hash": "x"})
    assert equal_ignoring_hash(plain, hashed)
    assert not equal_ignoring_hash(plain, made({}, app="api"))
    assert template_hash(plain, None) == template_hash(hashed, None)


def test_a_collision_gives_another_hash() -> None:
    """In upstream's alphabet, ten letters at most."""
    hashes = {template_hash(made({}), count) for count in (None, 1, 2, 3)}
    assert len(hashes) == 4
    for each in hashes:
        assert 1 <= len(each) <= 10
        assert set(each) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_the_oldest_replica_set_of_the_template_is_the_new_one() -> None:
    """Every sync chooses the same one."""
    young, old = replica_set("nn", 1), replica_set("n", 1)
    other = replica_set("o", 1, image="app:v0")
    rollout = find_rollout(deployment(), [young, other, old])
    assert rollout.new == old
    assert rollout.old == (other, young)


def test_a_new_replica_set_carries_hash_owner_and_annotations() -> None:
    """Name, labels, selector and template agree."""
    subject = deployment(minReadySeconds=5)
    made_set = new_replica_set(subject, 3, {"a": "b"})
    digest = template_hash(subject.spec.template, None)
    labels = {"app": "web", "pod-template-hash": digest}
    assert msgspec.json.decode(msgspec.json.encode(made_set)) == {
        "metadata": {
            "name": f"web-{digest}",
            "namespace": "default",
            "labels": labels,
            "annotations": {"a": "b"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "web",
                    "uid": "d",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "replicas": 3,
            "minReadySeconds": 5,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "app:v1"}]},
            },
        },
    }
