"""Validation of roles and bindings (pkg/apis/rbac/validation/validation.go)."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    subdomain_problems,
    validate_path_segment,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)

GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")
_PATHS: Final = "nonResourceURLs"


def validate_rules(role: JSON, *, namespaced: bool) -> Iterator[Cause]:
    """Yield the errors in the rules of a role."""
    for index, rule in enumerate(role.get("rules") or ()):
        yield from _validate_rule(rule, f"rules[{index}]", namespaced=namespaced)


def _validate_rule(rule: JSON, path: str, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    if paths := rule.get(_PATHS):
        field = f"{path}.{_PATHS}"
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(field, shown(paths), detail)
        if any(rule.get(each) for each in ("apiGroups", "resources", "resourceNames")):
            detail = (
                "rules cannot apply to both regular resources and non-resource URLs"
            )
            yield invalid(field, shown(paths), detail)
        return
    if not rule.get("apiGroups"):
        detail = "resource rules must supply at least one api group"
        yield required(f"{path}.apiGroups", detail)
    if not rule.get("resources"):
        detail = "resource rules must supply at least one resource"
        yield required(f"{path}.resources", detail)


def validate_binding(binding: JSON, role_kinds: Sequence[str]) -> Iterator[Cause]:
    """Yield the errors in a binding to roles of these kinds."""
    reference = binding.get("roleRef") or {}
    if reference.get("apiGroup", "") != GROUP:
        given = shown(reference.get("apiGroup", ""))
        yield not_supported("roleRef.apiGroup", given, [GROUP])
    if reference.get("kind") not in role_kinds:
        yield not_supported(
            "roleRef.kind", shown(reference.get("kind", "")), role_kinds
        )
    if name := reference.get("name"):
        yield from validate_path_segment(name, "roleRef.name")
    else:
        yield required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _validate_subject(
            subject, f"subjects[{index}]", namespaced="Role" in role_kinds
        )


def _validate_subject(subject: JSON, path: str, *, namespaced: bool) -> Iterator[Cause]:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        yield required(f"{path}.name")
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", shown(kind), _SUBJECTS)
        return
    expected = "" if kind == "ServiceAccount" else GROUP
    if name and kind == "ServiceAccount":
        for problem in subdomain_problems(name):
            yield invalid(f"{path}.name", shown(name), problem)
    if group != expected:
        yield not_supported(f"{path}.apiGroup", shown(group), [expected])
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        yield required(f"{path}.namespace")


def validate_reference_kept(old: JSON, new: JSON) -> Iterator[Cause]:
    """Yield the cause if an update binds another role."""
    if old.get("roleRef") != new.get("roleRef"):
        reference = new.get("roleRef") or {}
        # Upstream shows the type of its storage, whose fields have Go's names.
        value = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        yield invalid("roleRef", shown(value), "cannot change roleRef")
