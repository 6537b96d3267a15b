"""A change of the status of a job."""

from controller_manager.api.json_objects import JSON


class JobStatusChange:
    """The status of a job before and after a write, and the spec it belongs to."""

    def __init__(self, old: JSON, new: JSON) -> None:
        self.spec: JSON = new["spec"]
        self.before: JSON = old.get("status", {})
        self.after: JSON = new.get("status", {})
        self._had = _true_conditions(self.before)
        self._has = _true_conditions(self.after)

    def was_true(self, condition: str) -> bool:
        """Tell whether a condition was true before the write."""
        return condition in self._had

    def is_true(self, condition: str) -> bool:
        """Tell whether a condition is true after the write."""
        return condition in self._has

    def switches(self, *conditions: str) -> bool:
        """Tell whether one of the conditions becomes true or stops being true."""
        return any((each in self._had) != (each in self._has) for each in conditions)

    def changes(self, *names: str) -> bool:
        """Tell whether one of the fields of the status changes."""
        return any(self.before.get(name) != self.after.get(name) for name in names)

    @property
    def finishes(self) -> bool:
        """Tell whether the write finishes the job, or makes it unfinished again."""
        finished = {"Complete", "Failed"}
        return bool(self._had & finished) != bool(self._has & finished)


def _true_conditions(status: JSON) -> frozenset[str]:
    return frozenset(
        each.get("type", "")
        for each in status.get("conditions", [])
        if each.get("status") == "True"
    )
