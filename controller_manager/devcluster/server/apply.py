"""Server-side apply, and who owns which field (managedFields).

An object gets managers of its fields when it is applied for the first time; the fields
that it has by then belong to ``before-first-apply``, as on a real server.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from controller_manager.devcluster.server.field_sets import (
    Path,
    decoded,
    encoded,
    fields_in,
    removable,
    without,
)
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.statuses import Refusal

JSON = dict[str, Any]

MEDIA_TYPE: Final = "application/apply-patch+yaml"

_BEFORE: Final = "before-first-apply"
_STATUS: Final = ("f:status",)


class Manager(NamedTuple):
    """Who writes fields, how (Apply or Update), and through which subresource."""

    name: str
    operation: str
    subresource: str = ""


class Owned(NamedTuple):
    """The fields of a manager, and when it got or lost some of them last."""

    paths: frozenset[Path]
    time: str


@dataclass(frozen=True)
class FieldManager:
    """A request's manager of fields; `time` is that of the request."""

    kind: Kind
    manager: Manager
    time: str

    def first(self, config: JSON) -> list[JSON]:
        """Return the managers of an object that a configuration creates."""
        paths = frozenset(self._applicable(config))
        return self._entries({self.manager: Owned(paths, self.time)})

    def applied(
        self, current: JSON, config: JSON, *, force: bool
    ) -> tuple[JSON, list[JSON]]:
        """Return an object to which a configuration is applied, and its managers.

        Fields that this manager applied before, and that nobody else owns, go if the
        configuration lacks them. Raises Refusal 409 if somebody else owns a field with
        another value, unless `force` is given. Nothing changes if nothing is applied.
        """
        owners = self._owners(current)
        present, wanted = self._fields(current), self._applicable(config)
        merge = self.kind.strategy.field_types().merged
        merged = merge(current, config)
        if not wanted and self.manager not in owners:
            return merged, current["metadata"].get("managedFields", [])
        others = {each: owned for each, owned in owners.items() if each != self.manager}
        lost = {path for path in wanted if wanted[path] != present.get(path)}
        if not force:
            self._check_conflicts(others, lost)
        before = owners.get(self.manager, Owned(frozenset(), "")).paths
        everybody = {path for owned in others.values() for path in owned.paths}
        kept_fields = without(merged, removable(before - wanted.keys(), everybody))
        # A map that lost all its fields stays if the configuration has it.
        result = merge(kept_fields, config)
        kept = {each: self._less(owned, lost) for each, owned in others.items()}
        kept[self.manager] = self._stamped(owners, frozenset(wanted))
        return result, self._entries(kept)

    def updated(self, old: JSON, new: JSON) -> JSON:
        """Return what a PUT or PATCH leaves behind: it owns what it changed."""
        if not old["metadata"].get("managedFields"):
            return new
        before, after = self._fields(old), self._fields(new)
        changed = {path for path in after if after[path] != before.get(path, self)}
        lost = changed | (before.keys() - after.keys())
        owners = self._owners(old)
        kept = {each: self._less(owned, lost) for each, owned in owners.items()}
        mine = owners.get(self.manager, Owned(frozenset(), "")).paths
        kept[self.manager] = self._stamped(owners, frozenset((mine - lost) | changed))
        return with_managers(self._entries(kept), new)

    def _fields(self, obj: JSON) -> Mapping[Path, Any]:
        return fields_in(obj, self.kind.strategy.field_types())

    def _applicable(self, config: JSON) -> Mapping[Path, Any]:
        """Return the fields of a configuration that the request can write."""
        fields = self._fields(config)
        if self.manager.subresource:
            return {path: each for path, each in fields.items() if path[:1] == _STATUS}
        if self.kind.has_status:
            return {path: each for path, each in fields.items() if path[:1] != _STATUS}
        return fields

    def _check_conflicts(
        self, others: Mapping[Manager, Owned], lost: set[Path]
    ) -> None:
        found = {
            each: (owned, sorted(owned.paths & lost))
            for each, owned in sorted(others.items())
            if owned.paths & lost
        }
        if not found:
            return
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {self._described(each, owned)}",
                "field": _shown(path),
            }
            for each, (owned, paths) in found.items()
            for path in paths
        ]
        (first, *more) = causes
        if not more:
            listed = f"1 conflict: {first['message']}: {first['field']}"
            raise _conflict(listed, causes)
        lines: list[str] = []
        for each, (owned, paths) in found.items():
            lines.append(f"conflicts with {self._described(each, owned)}:")
            lines += [f"- {_shown(path)}" for path in paths]
        text = "\n".join(lines)
        raise _conflict(f"{len(causes)} conflicts: {text}", causes)

    def _described(self, manager: Manager, owned: Owned) -> str:
        """Return a manager as messages name it (printManager of managedfields)."""
        text = f'"{manager.name}"'
        if manager.subresource:
            text += f' with subresource "{manager.subresource}"'
        if manager.operation == "Update":
            text += f" using {self.kind.api_version} at {owned.time}"
        return text

    def _owners(self, obj: JSON) -> dict[Manager, Owned]:
        entries = obj["metadata"].get("managedFields")
        if not entries:
            paths = frozenset(self._fields(obj))
            return {Manager(_BEFORE, "Update"): Owned(paths, self.time)}
        return {
            Manager(each["manager"], each["operation"], each.get("subresource", "")): (
                Owned(frozenset(decoded(each["fieldsV1"])), each["time"])
            )
            for each in entries
        }

    def _less(self, owned: Owned, lost: set[Path]) -> Owned:
        left = owned.paths - lost
        return owned if left == owned.paths else Owned(left, self.time)

    def _stamped(
        self, owners: Mapping[Manager, Owned], paths: frozenset[Path]
    ) -> Owned:
        before = owners.get(self.manager)
        same = before is not None and before.paths == paths
        return before if before and same else Owned(paths, self.time)

    def _entries(self, owners: Mapping[Manager, Owned]) -> list[JSON]:
        return [
            {
                "manager": manager.name,
                "operation": manager.operation,
                "apiVersion": self.kind.api_version,
                "time": owned.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": encoded(owned.paths),
                **({"subresource": manager.subresource} if manager.subresource else {}),
            }
            for manager, owned in owners.items()
            if owned.paths
        ]


def with_managers(managers: list[JSON], obj: JSON) -> JSON:
    """Return an object with these managers of its fields, if there are any."""
    if not managers:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "managedFields": managers}}


def _conflict(listed: str, causes: list[JSON]) -> Refusal:
    message = f"Apply failed with {listed}"
    return Refusal(409, "Conflict", message, {"causes": causes})


def _shown(path: Path) -> str:
    """Return a path as messages show it: ``.spec.replicas``."""
    text = ""
    for step in path:
        text += f".{step[2:]}" if step.startswith("f:") else f"[{step[2:]}]"
    return text.removesuffix("[]")
