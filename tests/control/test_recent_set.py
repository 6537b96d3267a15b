"""A set that keeps the most recent items only."""

from controller_manager.control.recent_set import RecentSet


def test_a_limited_number_of_items_is_kept() -> None:
    """The oldest item is dropped; an item that is added again becomes the newest."""
    recent: RecentSet[str] = RecentSet(2)
    for item in ("a", "b", "a", "c"):
        recent.add(item)
    assert [item in recent for item in "abc"] == [True, False, True]
    assert len(recent) == 2
