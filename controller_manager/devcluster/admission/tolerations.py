"""Merges lists of tolerations (pkg/util/tolerations)."""

from typing import Final

from controller_manager.api.json_objects import JSON

_MOST_COMPARED: Final = 500


def merged(first: list[JSON], second: list[JSON]) -> list[JSON]:
    """Return the tolerations of both lists, without those that others cover.

    Very long lists are not reduced: the cost grows with the square of their length.
    """
    both, kept = [*first, *second], list[JSON]()
    if len(both) > _MOST_COMPARED:
        return both
    for number, each in enumerate(both):
        later = both[number + 1 :]
        is_covered = any(_covers(other, each) for other in kept) or any(
            other != each and _covers(other, each) for other in later
        )
        if not is_covered:
            kept.append(each)
    return kept


def _covers(wide: JSON, narrow: JSON) -> bool:
    """Tell whether one toleration tolerates all that another one does."""
    if wide == narrow:
        return True
    operator = wide.get("operator", "Equal")
    covers_all_keys = not wide.get("key") and operator == "Exists"
    if wide.get("key") != narrow.get("key") and not covers_all_keys:
        return False
    if wide.get("effect") not in (None, "", narrow.get("effect")):
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Equal":
        is_equal = narrow.get("operator", "Equal") == "Equal"
        return bool(is_equal and wide.get("value") == narrow.get("value"))
    return bool(operator == "Exists")
