"""Revisions, their annotations, and the limit of their number."""

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import ObjectMeta, controller_reference, raw_json
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
from tests.controllers.apps.deployment.model import ROLLBACK, web
from tests.controllers.builders import (
    deployment,
    deployment_json,
    replica_set,
    template,
)
from tests.controllers.user import User, settle

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NUMBERS = [str(number) for number in range(100, 601)]


@pytest.mark.parametrize(
    ("parent", "own", "revision", "expected"),
    [
        # All annotations but the controller's own are inherited; those that the
        # deployment does not have any more stay.
        (
            {"cause": "x", REVISION: "9", APPLIED: "{}", ROLLBACK: "1"},
            {"kept": "y"},
            3,
            {"kept": "y", "cause": "x", REVISION: "3"},
        ),
        # The history of a reused replica set grows; a higher revision stays.
        ({}, {REVISION: "1"}, 3, {REVISION: "3", REVISION_HISTORY: "1"}),
        (
            {},
            {REVISION: "3", REVISION_HISTORY: "1"},
            5,
            {REVISION: "5", REVISION_HISTORY: "1,3"},
        ),
        ({}, {REVISION: "7"}, 3, {REVISION: "7"}),
        # It is cut from its oldest end, at 2,000 characters.
        (
            {},
            {REVISION: "600", REVISION_HISTORY: ",".join(NUMBERS[:-1])},
            601,
            {REVISION: "601", REVISION_HISTORY: ",".join(NUMBERS[1:])},
        ),
        # Of what a user wrote, an empty revision is none, and no number stays.
        ({}, {REVISION: ""}, 3, {REVISION: "3"}),
        ({}, {REVISION: "+2"}, 3, {REVISION: "3", REVISION_HISTORY: "+2"}),
        ({}, {REVISION: "two"}, 3, {REVISION: "two"}),
        ({}, {REVISION: "\u0662"}, 3, {REVISION: "\u0662"}),
        ({}, {REVISION: "9" * 5000}, 3, {REVISION: "9" * 5000}),
    ],
)
def test_a_replica_set_gets_revision_and_annotations(
    parent: dict[str, str], own: dict[str, str], revision: int, expected: dict[str, str]
) -> None:
    subject = web(metadata={"annotations": parent})
    assert synced_annotations(subject, own, revision) == expected


def test_the_last_revision_is_the_second_highest() -> None:
    """An undo without a number goes back to it."""
    sets = tuple(replica_set(f"r{n}", 0, revision=n) for n in (1, 4, 3))
    assert rollback_target(Rollout(deployment(), None, sets), 0) is sets[2]
    assert rollback_target(Rollout(deployment(), None, sets[:1]), 0) is None


@pytest.mark.parametrize(
    ("limit", "expected"), [(1, ["r1", "r3", "r4"]), (5, []), (None, [])]
)
def test_only_empty_old_ones_go(limit: int | None, expected: list[str]) -> None:
    olds = tuple(replica_set(f"r{n}", int(n == 2), revision=n) for n in range(1, 6))
    rollout = Rollout(deployment(revisionHistoryLimit=limit), None, olds)
    assert [each.metadata.name for each in beyond_history_limit(rollout)] == expected


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
def test_the_last_size_is_read_as_upstream(text: str | None, size: int | None) -> None:
    """Users can write the annotation; one that is no number is as good as none."""
    annotations = {} if text is None else {DESIRED_REPLICAS: text, MAX_REPLICAS: text}
    scaled = replica_set("rs", 3)
    metadata = replace(scaled.metadata, annotations=annotations)
    scaled = replace(scaled, metadata=metadata)
    assert (desired_annotation(scaled), max_annotation(scaled)) == (size, size)


@pytest.mark.looptime
async def test_an_undo_may_miss_its_deadline(cluster: Cluster, user: User) -> None:
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
        missed = ("False", "ProgressDeadlineExceeded")
        assert (await user.conditions())["Progressing"] == missed


@pytest.mark.looptime
async def test_a_pause_keeps_the_rollback(cluster: Cluster, user: User) -> None:
    async with cluster.nodes(), cluster.manager():
        await user.create(DEPLOYMENTS, deployment_json())
        await settle()
        await user.set_image("app:v2")
        await settle()
        request = {"annotations": {ROLLBACK: "1"}}
        spec = {"paused": True, "revisionHistoryLimit": 0}
        await user.patch(DEPLOYMENTS, "web", {"metadata": request, "spec": spec})
        await settle()
        assert sorted(await user.replica_sets()) == ["1", "2"]
        await user.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
        await settle(60)
        subject = await user.client.get_json(DEPLOYMENTS, "default", "web")
        assert subject["spec"]["template"]["spec"]["containers"][0]["image"] == "app:v1"
        assert sorted(await user.replica_sets()) == ["3"]


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
def test_equal_templates_equal_pods(one: object, other: object, equal: bool) -> None:
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
    subject = deployment(minReadySeconds=5)
    made_set = new_replica_set(subject, 3, {"a": "b"})
    digest = template_hash(subject.spec.template, None)
    labels = {"app": "web", "pod-template-hash": digest}
    owner = controller_reference(subject, DEPLOYMENTS)
    assert msgspec.json.decode(msgspec.json.encode(made_set)) == {
        "metadata": {
            "name": f"web-{digest}",
            "namespace": "default",
            "labels": labels,
            "annotations": {"a": "b"},
            "ownerReferences": [msgspec.to_builtins(owner)],
        },
        "spec": {
            "replicas": 3,
            "minReadySeconds": 5,
            "selector": {"matchLabels": labels},
            "template": template("app:v1", **labels),
        },
    }
