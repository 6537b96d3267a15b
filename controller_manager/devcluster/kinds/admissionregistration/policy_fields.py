"""The fields that both kinds of policies have: failure policy, parameters, matches."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    not_supported,
    required,
    shown,
)

from .matching import apply_match_defaults, validate_match

_FAILURE_POLICIES: Final = ("Fail", "Ignore")


def apply_policy_defaults(policy: JSON) -> None:
    """Fill in the failure policy and the match constraints."""
    spec = policy.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if "matchConstraints" in spec:
        apply_match_defaults(spec["matchConstraints"])


def param_kind_text(spec: JSON) -> str:
    """Return the kind of the parameters as kubectl shows it."""
    kind = spec.get("paramKind")
    return f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"


def validate_policy_fields(spec: JSON) -> list[Cause]:
    """Check the failure policy, the kind of the parameters, and the constraints."""
    causes = []
    if spec["failurePolicy"] not in _FAILURE_POLICIES:
        value = shown(spec["failurePolicy"])
        causes.append(not_supported("spec.failurePolicy", value, _FAILURE_POLICIES))
    causes += _validate_param_kind(spec.get("paramKind"))
    match, field = spec.get("matchConstraints"), "spec.matchConstraints"
    if match is None:
        return [*causes, required(field)]
    return causes + validate_match(match, field, needs_rules=True)


def _validate_param_kind(kind: JSON | None) -> list[Cause]:
    if kind is None:
        return []
    return [
        required(f"spec.paramKind.{name}")
        for name in ("apiVersion", "kind")
        if not kind.get(name)
    ]
