"""Equality of templates, and the replica set of a template."""

import msgspec
import pytest

from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.meta import ObjectMeta, raw_json
from controller_manager.controllers.apps.deployment.rollout import (
    equal_ignoring_hash,
    find_rollout,
    new_replica_set,
    template_hash,
)
from tests.controllers.builders import deployment, replica_set


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
