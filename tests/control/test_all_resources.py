"""Versions that give way to others, and a set of recent items."""

from controller_manager.control.all_resources import SupersededVersions
from controller_manager.control.recent_set import RecentSet

WIDGETS = ("example.com", "widgets")


def test_a_version_gives_way_when_another_has_been_preferred_for_a_minute() -> None:
    versions = SupersededVersions()
    seen = [
        ("v2", 0.0),
        ("v2", 59.0),
        ("v1", 60.0),
        ("v2", 61.0),
        ("v2", 120.0),
        ("v2", 121.0),
    ]
    assert [
        versions.supersedes(WIDGETS, "v1", preferred, now) for preferred, now in seen
    ] == [False, False, False, False, False, True]


def test_a_version_stays_while_no_other_one_is_known() -> None:
    """As when the group cannot be discovered."""
    versions = SupersededVersions()
    assert not versions.supersedes(WIDGETS, "v1", "v2", 0.0)
    assert not versions.supersedes(WIDGETS, "v1", None, 100.0)
    assert not versions.supersedes(WIDGETS, "v1", "v2", 101.0)


def test_a_resource_that_was_forgotten_waits_for_its_minute_again() -> None:
    """It may be watched in another version now."""
    versions = SupersededVersions()
    assert not versions.supersedes(WIDGETS, "v1", "v2", 0.0)
    versions.forget(WIDGETS)
    assert not versions.supersedes(WIDGETS, "v1", "v2", 100.0)


def test_a_limited_number_of_items_is_kept() -> None:
    """The oldest item is dropped; an item that is added again becomes the newest."""
    recent: RecentSet[str] = RecentSet(2)
    for item in ("a", "b", "a", "c"):
        recent.add(item)
    assert [item in recent for item in "abc"] == [True, False, True]
    assert len(recent) == 2
