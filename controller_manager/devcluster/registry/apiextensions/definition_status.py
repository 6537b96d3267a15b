"""The status of custom resource definitions: approval, conditions, names."""

from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.admissionregistration.webhooks import (
    CLIENT,
    validate_review_versions,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.webhook import NO_AUTHORITY, authority_of

# Approval of definitions in groups of the Kubernetes project (pkg/apihelpers).

ANNOTATION: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def approval_condition(definition: JSON) -> tuple[str, str, str] | None:
    """Return status, reason and message of the condition, `None` for other groups."""
    if not _is_protected(definition):
        return None
    value = _annotation(definition)
    if value.startswith("unapproved"):
        return "False", "UnapprovedAnnotation", f'not approved: "{value}"'
    return "True", "ApprovedAnnotation", f"approved in {value}"


def validate_approval(definition: JSON, _: str, old: JSON) -> list[Cause]:
    """Check that a definition in a protected group says whether it is approved.

    An update may keep the annotation of the `old` definition, which is else empty.
    """
    value = _annotation(definition)
    if not _is_protected(definition) or _is_approved(value):
        return []
    if old and _annotation(old) == value:
        return []
    field, needs = f"metadata.annotations[{ANNOTATION}]", "protected groups must have"
    if not value:
        return [required(field, f'{needs} approval annotation "{ANNOTATION}", {_SEE}')]
    detail = (
        f'{needs} approval annotation "{ANNOTATION}" with either a URL or a reason '
        f'starting with "unapproved", {_SEE}'
    )
    return [invalid(field, shown(value), detail)]


def _annotation(definition: JSON) -> str:
    annotations: JSON = definition["metadata"].get("annotations", {})
    return str(annotations.get(ANNOTATION, ""))


def _is_protected(definition: JSON) -> bool:
    group = definition["spec"].get("group", "")
    return any(group == each or group.endswith(f".{each}") for each in _PROTECTED)


def _is_approved(value: str) -> bool:
    if value.startswith("unapproved"):
        return True
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


# Validation of the field ``conversion`` in the spec of a definition.

_CLIENT: Final = "spec.conversion.webhookClientConfig"
_INTERNAL: Final = table(
    """
    strategy: enum None Webhook default empty
    when strategy is Webhook:
      webhookClientConfig: required pointer "required when strategy is set to Webhook"
      webhookClientConfig:
        include CLIENT
      conversionReviewVersions: required
      conversionReviewVersions: review_versions
    else:
      webhookClientConfig: forbidden
        "should not be set when strategy is not set to Webhook"
      conversionReviewVersions: forbidden filled
        "should not be set when strategy is not set to Webhook"
    """,
    validate_review_versions,
    CLIENT=CLIENT,
)


def validate_conversion(conversion: JSON) -> list[Cause]:
    """Return the errors in a ``conversion``; they name fields of upstream's form."""
    webhook = conversion.get("webhook") or {}
    internal = {"strategy": conversion.get("strategy", "")}
    if (config := webhook.get("clientConfig")) is not None:
        internal["webhookClientConfig"] = config
    if reviews := webhook.get("conversionReviewVersions"):
        internal["conversionReviewVersions"] = reviews
    return _INTERNAL.errors(internal, path="spec.conversion.")


def has_valid_bundle(definition: JSON) -> bool:
    """Tell whether the ``caBundle`` of a definition, if it has one, can be read."""
    return authority_of(_client(definition)) is not None


def validate_bundle(new: JSON, _: str, old: JSON) -> Iterator[Cause]:
    """Yield the error in a changed ``caBundle`` of a definition that is served.

    One that is not served yet may have a wrong one: it waits for a right one.
    """
    if has_valid_bundle(old) and not has_valid_bundle(new):
        bundle = shown(_client(new)["caBundle"])
        yield invalid(f"{_CLIENT}.caBundle", bundle, NO_AUTHORITY)


def _client(definition: JSON) -> JSON:
    """Return the ``clientConfig`` of a definition, empty without one."""
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    config: JSON = webhook.get("clientConfig") or {}
    return config


# The status of a definition: its accepted names, and its conditions.

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
