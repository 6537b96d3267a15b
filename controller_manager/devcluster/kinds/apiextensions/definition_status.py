"""The status of a definition: its accepted names, and its conditions.

Upstream: the naming condition, establishing, finalizer and apiapproval controllers of
apiextensions-apiserver.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON

from .approval import approval_condition
from .conversion_validation import has_valid_bundle

_NAMES: Final = (
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
)


class Taken(Struct):
    """The names of all definitions of a group except one."""

    resources: set[str]
    kinds: set[str]

    def of(self, name: str) -> set[str]:
        """Return the taken names among which a name must be unique."""
        return self.kinds if name in ("kind", "listKind") else self.resources


def taken_names(definition: JSON, others: Iterable[JSON]) -> Taken:
    """Return the names that other definitions of the same group have."""
    taken = Taken(set(), set())
    for other in others:
        if other["metadata"]["uid"] == definition["metadata"]["uid"]:
            continue
        if other["spec"]["group"] != definition["spec"]["group"]:
            continue
        names = other.get("status", {}).get("acceptedNames", {})
        taken.resources |= {names.get("plural", ""), names.get("singular", "")}
        taken.resources |= {*names.get("shortNames", ())}
        taken.kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return taken


def is_settled(definition: JSON) -> bool:
    """Tell whether the status of a definition is final.

    Accepted names stay accepted, also if other definitions ask for the same names.
    """
    metadata, status = definition["metadata"], definition.get("status", {})
    conditions = status.get("conditions") or []
    return (
        "deletionTimestamp" not in metadata
        and status.get("acceptedNames") == definition["spec"]["names"]
        and _is_true(conditions, "NamesAccepted")
        and _is_true(conditions, "Established")
        and approval_condition(definition) is None
    )


def new_status(definition: JSON, taken: Taken, now: str) -> JSON:
    """Return the status of a definition; other definitions have the `taken` names.

    `now` is the time of conditions that change.
    """
    wanted, status = definition["spec"]["names"], definition.get("status", {})
    accepted = dict(status.get("acceptedNames", {}))
    conflict: tuple[str, str] | None = None
    for name, reason in _NAMES:
        before = accepted.get(name)
        problems = _conflicts(wanted.get(name), before, taken.of(name))
        if problems:
            conflict = reason, problems
        elif name in wanted:
            accepted[name] = wanted[name]
        else:
            accepted.pop(name, None)
    accepted.pop("categories", None)
    if "categories" in wanted:
        accepted["categories"] = wanted["categories"]
    conditions = list(status.get("conditions") or ())
    for condition in _conditions(definition, conditions, conflict):
        conditions = _with_condition(conditions, condition, now)
    return {**status, "conditions": conditions, "acceptedNames": accepted}


def _conflicts(wanted: Any, accepted: Any, taken: set[str]) -> str:
    """Return why a name, or short names, cannot be accepted; empty if they can."""
    if wanted == accepted:
        return ""
    if not isinstance(wanted, list):
        return f'"{wanted}" is already in use' if wanted in taken else ""
    known = accepted or ()
    texts = [
        f'"{each}" is already in use'
        for each in wanted
        if each not in known and each in taken
    ]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


def _conditions(
    definition: JSON, known: list[JSON], conflict: tuple[str, str] | None
) -> Iterable[JSON]:
    if conflict is None:
        yield _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        if not _is_true(known, "Established"):
            yield _established(definition)
    else:
        yield _condition("NamesAccepted", "False", *conflict)
        if not _is_true(known, "Established"):
            message = "not all names are accepted"
            yield _condition("Established", "False", "NotAccepted", message)
    if "deletionTimestamp" in definition["metadata"]:
        message = "CustomResource deletion is in progress"
        reason = "InstanceDeletionInProgress"
        yield _condition("Terminating", "True", reason, message)
    if (approval := approval_condition(definition)) is not None:
        yield _condition("KubernetesAPIApprovalPolicyConformant", *approval)


def _established(definition: JSON) -> JSON:
    """Return the condition Established of a definition whose names are accepted."""
    if not has_valid_bundle(definition):
        why = "The conversion webhook CABundle is invalid"
        return _condition("Established", "False", "InvalidCABundle", why)
    why = "the initial names have been accepted"
    return _condition("Established", "True", "InitialNamesAccepted", why)


def is_established(definition: JSON) -> bool:
    """Tell whether the kinds of a definition are served."""
    conditions = definition.get("status", {}).get("conditions") or []
    return _is_true(conditions, "Established")


def _is_true(conditions: list[JSON], type_: str) -> bool:
    return any(
        each["type"] == type_ and each["status"] == "True" for each in conditions
    )


def _condition(type_: str, status: str, reason: str, message: str) -> JSON:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def _with_condition(conditions: list[JSON], new: JSON, now: str) -> list[JSON]:
    """Return the conditions with a new one; its time changes with its status."""
    for number, old in enumerate(conditions):
        if old["type"] == new["type"]:
            time = now
            if old["status"] == new["status"] and "lastTransitionTime" in old:
                time = old["lastTransitionTime"]
            changed = {**old, **new, "lastTransitionTime": time}
            return [*conditions[:number], changed, *conditions[number + 1 :]]
    type_, status = new["type"], new["status"]
    first = {"type": type_, "status": status, "lastTransitionTime": now}
    return [*conditions, {**first, **new}]
