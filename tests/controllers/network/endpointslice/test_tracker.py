"""The state of a service is used only while it is certain to be right."""

from datetime import datetime, timedelta

from controller_manager.controllers.network.endpointslice.tracker import ServiceTracker
from tests.clusters import EPOCH
from tests.control.endpoints.objects import service


def test_a_service_that_has_changed_is_not_known() -> None:
    """Not even if the objects are equal: another version may have other pods."""
    memory, web = ServiceTracker(_Stopped()), service()
    assert memory.of("default/web", web) is None
    known = memory.start("default/web", web, ("IPv4",))
    assert memory.of("default/web", web) is known
    assert memory.of("default/web", service()) is None


def test_after_an_hour_a_service_is_checked_completely() -> None:
    """As upstream does at every sync."""
    clock = _Stopped()
    memory, web = ServiceTracker(clock), service()
    memory.start("default/web", web, ("IPv4",))
    clock.passed = 3599.0
    assert memory.of("default/web", web) is not None
    clock.passed = 3600.0
    assert memory.of("default/web", web) is None


def test_changes_are_kept_in_order_for_known_services() -> None:
    """For other services, the next sync checks all pods."""
    memory, web = ServiceTracker(_Stopped()), service()
    memory.pod_changed("default/web", "early")
    known = memory.start("default/web", web, ("IPv4",))
    for name in ("b", "a", "b"):
        memory.pod_changed("default/web", name)
    assert list(known.changed) == ["b", "a"]
    memory.forget("default/web")
    assert memory.of("default/web", web) is None


class _Stopped:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed
