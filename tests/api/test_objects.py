"""Objects, their owners and their conditions."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api import meta
from controller_manager.api.apps.v1 import REPLICASETS, Deployment, ReplicaSet
from controller_manager.api.core.v1 import Pod, PodCondition
from controller_manager.api.pods import available_at, is_active, is_available, is_ready
from controller_manager.api.scalars import IntOrStringError, scaled_value

TEMPLATE_SPEC = {
    "containers": [{"name": "c", "image": "app:v1", "aFieldOfTomorrow": {"x": [1, 2]}}],
    "anotherFieldOfTomorrow": True,
}

REPLICA_SET: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {
        "name": "web-1",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web"},
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
        "finalizers": ["example.com/hold"],
    },
    "spec": {
        "replicas": 0,
        "minReadySeconds": 3,
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "x", "operator": "Exists"}],
        },
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": TEMPLATE_SPEC},
    },
    "status": {"replicas": 2, "terminatingReplicas": 0, "observedGeneration": 2},
}


def test_a_replica_set_survives_decoding_and_encoding() -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(REPLICA_SET), type=ReplicaSet)
    assert msgspec.json.decode(msgspec.json.encode(decoded)) == REPLICA_SET


def test_nulls_are_taken_as_absent() -> None:
    """Go writes null where it has no value."""
    obj = {
        "metadata": {"name": "x", "labels": None, "creationTimestamp": None},
        "spec": {"template": {"metadata": {"creationTimestamp": None}, "spec": {}}},
        "status": {"conditions": None},
    }
    decoded = msgspec.json.decode(msgspec.json.encode(obj), type=Deployment)
    assert decoded.metadata == meta.ObjectMeta(name="x")
    assert decoded.status.conditions is None


def test_a_template_does_not_keep_the_message_that_it_came_in() -> None:
    """Its bytes are copied, so the memory of a page of 500 objects can be freed."""
    message = msgspec.json.encode(REPLICA_SET)
    decoded = msgspec.json.decode(message, type=ReplicaSet)
    assert bytes(decoded.spec.template.spec) == msgspec.json.encode(TEMPLATE_SPEC)
    assert memoryview(decoded.spec.template.spec).obj is not message


def test_an_object_in_the_cache_cannot_be_changed() -> None:
    """So readers need no copies."""
    with pytest.raises(AttributeError):
        meta.ObjectMeta().name = "other"  # type: ignore[misc]


def test_keys_join_and_split() -> None:
    assert meta.key_of(Pod()) == ""
    assert meta.split_key("ns/name") == ("ns", "name")
    assert meta.split_key("name") == ("", "name")


def test_versions_compare_as_numbers() -> None:
    """9 is older than 10; a text that is no number is older than all versions."""
    assert meta.resource_version_number("9") < meta.resource_version_number("10")
    assert meta.resource_version_number("") == meta.resource_version_number("x") == 0


def test_the_controller_is_the_owner_that_says_so() -> None:
    """Other owners do not count."""
    owner = msgspec.json.decode(msgspec.json.encode(REPLICA_SET), type=ReplicaSet)
    reference = meta.controller_of(owner)
    assert reference is not None
    assert (reference.kind, reference.uid) == ("Deployment", "d")
    made = meta.controller_reference(owner, REPLICASETS)
    assert msgspec.to_builtins(made) == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-1",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (3, 10, 3, 3),
        ("25%", 10, 3, 2),
        ("0%", 10, 0, 0),
        ("100%", 7, 7, 7),
        (0, 5, 0, 0),
    ],
)
def test_a_percentage_is_rounded_as_asked(
    value: int | str, total: int, up: int, down: int
) -> None:
    assert scaled_value(value, total, round_up=True) == up
    assert scaled_value(value, total, round_up=False) == down


def test_a_string_that_is_not_a_percentage_is_refused() -> None:
    with pytest.raises(IntOrStringError, match="'a lot'"):
        scaled_value("a lot", 1, round_up=True)


def pod(**status: Any) -> Pod:
    return msgspec.convert({"status": status}, Pod)


READY = {
    "type": "Ready",
    "status": "True",
    "lastTransitionTime": "2026-01-01T00:00:10Z",
}


def test_a_pod_is_available_once_it_has_been_ready_long_enough() -> None:
    """Exactly at the end of minReadySeconds, not before."""
    ready = pod(phase="Running", conditions=[READY])
    at_20 = datetime(2026, 1, 1, 0, 0, 20, tzinfo=UTC)
    assert is_ready(ready)
    assert available_at(ready, 10) == at_20
    assert is_available(ready, 10, at_20)
    assert not is_available(ready, 11, at_20)
    assert is_available(ready, 0, at_20)


def test_a_pod_that_does_not_say_since_when_it_is_ready_is_never_available() -> None:
    """Unless it need not have been ready for any time."""
    unknown = pod(phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert is_available(unknown, 0, now)
    assert not is_available(unknown, 1, now)


@pytest.mark.parametrize(
    ("phase", "deleting", "active"),
    [
        ("Running", False, True),
        ("Pending", False, True),
        ("Running", True, False),
        ("Failed", False, False),
        ("Succeeded", False, False),
    ],
)
def test_only_active_pods_count(phase: str, deleting: bool, active: bool) -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    subject = msgspec.convert({"metadata": metadata, "status": {"phase": phase}}, Pod)
    assert is_active(subject) is active


OLD = meta.Condition(
    type="Ready", status="True", last_transition_time="2026-01-01T00:00:00Z"
)
OTHER = meta.Condition(type="Other", status="True")
NEW = replace(OLD, reason="Now", last_transition_time="2026-01-02T00:00:00Z")


def test_a_condition_is_found_by_its_type() -> None:
    assert meta.find_condition((OTHER, OLD), "Ready") is OLD
    assert meta.find_condition(None, "Ready") is None


def test_a_new_condition_comes_last() -> None:
    assert meta.set_condition(None, NEW) == (NEW,)
    assert meta.set_condition((OTHER,), NEW) == (OTHER, NEW)


def test_an_equal_status_keeps_the_time_of_the_transition() -> None:
    kept = replace(NEW, last_transition_time=OLD.last_transition_time)
    assert meta.set_condition((OLD, OTHER), NEW) == (kept, OTHER)


def test_another_status_is_a_transition() -> None:
    changed = replace(NEW, status="False")
    assert meta.set_condition((OLD, OTHER), changed) == (changed, OTHER)


def test_a_condition_without_a_time_gets_one() -> None:
    """An API server refuses it otherwise."""
    timeless = replace(OLD, last_transition_time=None)
    assert meta.set_condition((timeless,), NEW) == (NEW,)


def test_conditions_of_all_forms_are_found_by_their_type() -> None:
    ready = PodCondition(type="Ready", status="True")
    other = PodCondition(type="Initialized", status="False")
    assert meta.find_condition((other, ready), "Ready") is ready
    assert meta.true_condition((other, ready), "Ready") is ready
    assert meta.true_condition((other, ready), "Initialized") is None
    assert meta.true_condition(None, "Ready") is None
