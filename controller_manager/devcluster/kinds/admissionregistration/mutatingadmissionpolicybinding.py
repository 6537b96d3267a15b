"""MutatingAdmissionPolicyBinding: the resources that a policy changes."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.scheme.statuses import Cause

from .matching import validate_mutable
from .policy_bindings import PolicyBindingStrategy


class MutatingAdmissionPolicyBindingStrategy(PolicyBindingStrategy):
    """Checks that the resources can be changed by policies."""

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the policy's name, the parameters and the match."""
        causes, spec = super().validate(obj), obj["spec"]
        if "matchResources" not in spec:
            return causes
        match = spec["matchResources"]
        return [*causes, *validate_mutable(match, "spec.matchResources")]


KIND: Final = kind_of(
    "admissionregistration.k8s.io/v1",
    "mutatingadmissionpolicybindings",
    MutatingAdmissionPolicyBindingStrategy(),
)
