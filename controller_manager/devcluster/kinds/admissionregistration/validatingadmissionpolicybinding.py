"""ValidatingAdmissionPolicyBinding: the scope of a policy, and its actions."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
)

from .policy_bindings import PolicyBindingStrategy

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_DENY_AND_WARN: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure "
    "information in the API response and headers serves no purpose)"
)


class ValidatingAdmissionPolicyBindingStrategy(PolicyBindingStrategy):
    """Checks the actions that follow a violation."""

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the policy's name, the parameters, the match and the actions."""
        actions = obj["spec"].get("validationActions", [])
        return [*super().validate(obj), *_validate_actions(actions)]


def _validate_actions(actions: list[str]) -> list[Cause]:
    field = "spec.validationActions"
    if not actions:
        return [required(field, "at least one validation action is required")]
    causes = []
    for number, action in enumerate(actions):
        where = f"{field}[{number}]"
        if action not in _ACTIONS:
            causes.append(not_supported(where, shown(action), _ACTIONS))
        if action in actions[:number]:
            causes.append(duplicate(where, shown(action)))
    if {"Deny", "Warn"} <= set(actions):
        causes.append(invalid(field, shown(actions), _DENY_AND_WARN))
    return causes


KIND: Final = kind_of(
    "admissionregistration.k8s.io/v1",
    "validatingadmissionpolicybindings",
    ValidatingAdmissionPolicyBindingStrategy(),
)
