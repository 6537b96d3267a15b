"""Conditions of the form that newer kinds share."""

from msgspec.structs import replace

from controller_manager.api import meta
from controller_manager.api.core.v1 import PodCondition

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
    """Everything else is replaced, in its place."""
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
