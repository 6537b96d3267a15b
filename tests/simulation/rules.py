"""Checks that every controller sends only the writes that it declares."""

from collections.abc import Iterable, Iterator

from tests.simulation.changes import differences
from tests.simulation.properties import AllowedWrite, Properties, Write


class WriteRules:
    """The writes that all controllers may send."""

    def __init__(self, properties: Iterable[type[Properties]]) -> None:
        """Take the properties of all controllers."""
        self._of: dict[str, tuple[AllowedWrite, ...]] = {
            each.controller: each.may_write for each in properties
        }

    def problems(self, write: Write) -> Iterator[str]:
        """Yield what a write does although its controller may not do it."""
        who = write.controller or "the manager"
        rules = [
            each for each in self._of.get(write.controller, ()) if each.covers(write)
        ]
        if not rules:
            yield f"{write}: {who} may not {write.verb} {write.target.resource}"
        if not rules or write.before is None or write.after is None:
            return
        for path, old, new in differences(write.before, write.after):
            if not any(each.changes(path, old, new) for each in rules):
                yield f"{write}: {who} changed {'.'.join(path)}: {old} to {new}"
