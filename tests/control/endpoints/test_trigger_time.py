"""Writes of endpoints have the time of the change that caused them."""

from controller_manager.control.endpoints.trigger_time import TriggerTimes
from tests.control.endpoints.objects import pod, service

CREATED = "2026-01-01T00:00:00Z"


def at(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00Z"


def test_the_first_time_is_the_creation_of_the_service() -> None:
    """Not a time of its pods: after a restart, all pods would look changed."""
    times = TriggerTimes()
    assert times.observe(service(), [pod("a", since=at(5))]) == CREATED
    assert len(times) == 1


def test_later_it_is_the_earliest_new_time_of_a_pod() -> None:
    """A pod whose condition has not changed does not count, nor one that is gone."""
    times = TriggerTimes()
    times.observe(service(), [pod("a", since=at(1)), pod("b", since=at(1))])
    changed = [pod("a", since=at(1)), pod("b", since=at(7)), pod("c", since=at(6))]
    assert times.observe(service(), changed) == at(6)
    assert times.observe(service(), changed[:1]) == ""
    assert times.observe(service(), [pod("b", since=at(7))]) == at(7)


def test_changed_pods_alone_give_the_same_time() -> None:
    """So a sync does not read the other pods."""
    times = TriggerTimes()
    times.observe(service(), [pod("a", since=at(1)), pod("b", since=at(1))])
    assert times.observe_some(service(), [pod("b", since=at(7))], []) == at(7)
    assert times.observe_some(service(), [], ["b"]) == ""
    assert times.observe_some(service(), [pod("b", since=at(7))], []) == at(7)


def test_a_service_that_is_gone_is_forgotten() -> None:
    """A new service of its name begins without state."""
    times = TriggerTimes()
    times.observe(service(), [])
    times.forget("default/web")
    assert len(times) == 0
    times.forget("default/web")
