"""Find the fields that go back and forth while the state does not become final."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from controller_manager.api.json_objects import JSON

from .objects import FieldPath, Write, differences

ELSE: Final = "another client"
"""The writer of a value that no controller has written, if the object does not say."""

_UNTOLD: Final = ("kube-controller-manager", "unknown")
"""Managers of fields that do not say who it was: an entry of a controller may be older
than the change, and users of the simulation have no name."""

_SHOWN: Final = 4
_VALUES: Final = 3
_EXISTENCE: Final[FieldPath] = ("existence",)


class Fights:
    """The values of each field that controllers write, in their order.

    A field that gets a value again which it had before has returned to it. Two writers
    that disagree let a field return again and again. A rollout that goes on slowly does
    so, too, in the counts of its status, but not in its spec.
    """

    def __init__(self) -> None:
        """Start without any writes."""
        self._values: defaultdict[tuple[str, FieldPath], list[tuple[str, str]]] = (
            defaultdict(list)
        )
        self._last: list[str] = []

    def record(self, write: Write) -> None:
        """Record an accepted write, and what others have changed since the last one."""
        self._last = [*self._last[1 - _SHOWN :], f"{write}"]
        after = write.created if write.verb == "create" else write.after
        if write.verb in ("create", "delete"):
            name = _family(after or write.before) or str(write.target)
            self._note(write, name, _EXISTENCE, f"{write.verb}d")
        elif write.before is not None and after is not None:
            for path, old, new in differences(write.before, after):
                self._note_change(write, path, old, new)

    def _note_change(self, write: Write, path: FieldPath, old: Any, new: Any) -> None:
        name = f"{write.target.namespace}/{write.target.name}"
        values = self._values[f"{write.target.plural} {name}", path]
        before = json.dumps(old)
        if not values or values[-1][0] != before:
            values.append((before, _manager_of(path, write.before or {})))
        values.append((json.dumps(new), write.controller))

    def _note(self, write: Write, name: str, path: FieldPath, value: str) -> None:
        values = self._values[f"{write.target.plural} {name}", path]
        if not values or values[-1][0] != value:
            values.append((value, write.controller))

    def report(self) -> Iterator[str]:
        """Yield the fields that returned most often, with their values and writers.

        Fields of a status come last: they follow the other fields. If no field
        returned, yield the last writes.
        """
        returns = {
            where: count
            for where, values in self._values.items()
            if (count := len(values) - len({value for value, _ in values})) > 0
        }

        def rank(
            where: tuple[str, FieldPath],
        ) -> tuple[bool, int, tuple[str, FieldPath]]:
            return where[1][0] == "status", -returns[where], where

        for where in sorted(returns, key=rank)[:_SHOWN]:
            name, path = where
            values = _with_writers(self._values[where])
            yield f"{name}: {'.'.join(path)} returned {returns[where]} times: {values}"
        if not returns:
            yield f"no field returned; the last writes: {'; '.join(self._last)}"


def _with_writers(values: Sequence[tuple[str, str]]) -> str:
    """Return the different values, each with all its writers."""
    writers: dict[str, dict[str, None]] = {}
    for value, writer in values:
        writers.setdefault(value, {})[writer] = None
    texts = [f"{value} by {' and '.join(names)}" for value, names in writers.items()]
    more = ["…"] if len(texts) > _VALUES else []
    return ", ".join([*texts[:_VALUES], *more])


def _family(obj: JSON | None) -> str:
    """Return namespace and name, "" for an object without a name, as of a review.

    A name that the server made has a star instead of its last part.
    """
    metadata = (obj or {}).get("metadata", {})
    prefix = metadata.get("generateName")
    name = f"{prefix}*" if prefix else metadata.get("name", "")
    return f"{metadata.get('namespace', '')}/{name}" if name else ""


def _manager_of(path: FieldPath, obj: JSON) -> str:
    """Return which part of the cluster an object names as the manager of a field."""
    for entry in obj["metadata"].get("managedFields", []):
        fields = entry.get("fieldsV1", {})
        for part in path:
            fields = fields.get(f"f:{part}")
            if fields is None:
                break
        else:
            if entry["manager"] not in _UNTOLD:
                return str(entry["manager"])
    return ELSE
