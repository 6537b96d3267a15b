"""Deliberate bugs of the status of policies."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller_manager.api.admissionregistration.v1 import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
)
from controller_manager.controllers.cluster.validatingadmissionpolicystatus import (
    type_checking,
)
from controller_manager.controllers.cluster.validatingadmissionpolicystatus.controller import (  # noqa: E501 - a long path
    PolicyStatusReconciler,
)
from controller_manager.runtime.outcome import DONE, Outcome
from tests.simulation.planted import Bug

_reconcile = PolicyStatusReconciler.reconcile
_SCENARIO: Final = "policy-mended"


def _warn_of_nothing(
    _: ValidatingAdmissionPolicySpec, __: type_checking.Kinds
) -> Iterator[dict[str, Any]]:
    yield from ()


def _check_no_kind(*_: Any) -> list[type_checking.GroupVersionKind]:
    return []


async def _check_once(
    self: PolicyStatusReconciler, policy: ValidatingAdmissionPolicy
) -> Outcome:
    """Check a policy only as long as it has no status."""
    return DONE if policy.status.observed_generation else await _reconcile(self, policy)


BUGS: Final[Mapping[str, Bug]] = {
    "warn of nothing": Bug(
        0, type_checking, "warnings_of", _warn_of_nothing, _SCENARIO
    ),
    "find no kind": Bug(0, type_checking, "kinds_to_check", _check_no_kind, _SCENARIO),
    "check only the first generation": Bug(
        0, PolicyStatusReconciler, "reconcile", _check_once, _SCENARIO
    ),
}
