"""The admission plugin ValidatingAdmissionPolicy (policy/validating/dispatcher.go)."""

from collections.abc import Iterator
from typing import ClassVar, Final

from controller_manager.devcluster.admission.expressions import (
    MOST_STEPS_OF_WRITE,
    names_of,
)
from controller_manager.devcluster.admission.matching import is_exempt_from_policies
from controller_manager.devcluster.cel.evaluation import Budget
from controller_manager.devcluster.server.apimachinery.statuses import (
    Refusal,
    forbidden,
)
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.security.authorization import Authorizer

from .bindings import Invocation, Policies
from .validations import Denial, denials

_CODES: Final = {"Forbidden": 403, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_INVALID: Final = ("Invalid", 422)


class ValidatingAdmissionPolicy(Plugin):
    """Evaluates the policies that are bound.

    A binding with the action Deny refuses the write, one with Warn adds a warning.
    Audit has no effect, because this server has no audit log.
    """

    name: ClassVar = "ValidatingAdmissionPolicy"
    validates: ClassVar = frozenset(Operation)

    def __init__(self, policies: Policies, authorizer: Authorizer) -> None:
        self._policies = policies
        self._authorizer = authorizer

    def validate(self, write: Write) -> None:
        """Raise Refusal if a policy refuses the write."""
        if not self._policies.are_bound or is_exempt_from_policies(write):
            return
        refusals: list[Refusal] = []
        total = Budget(MOST_STEPS_OF_WRITE)
        for invocation in self._policies.invocations(write):
            policy, binding = invocation.names
            for denial in self._denials(invocation, write, total):
                actions = _actions(invocation)
                if "Deny" in actions:
                    refusals.append(_refusal(invocation, denial, write))
                if "Warn" in actions:
                    write.warn(
                        f"Validation failed for ValidatingAdmissionPolicy '{policy}' "
                        f"with binding '{binding}': {denial.message}"
                    )
        if refusals:
            raise refusals[0]

    def _denials(
        self, invocation: Invocation, write: Write, total: Budget
    ) -> Iterator[Denial]:
        """Yield why a policy refuses a write; its failurePolicy may ignore errors."""
        if invocation.problem:
            if invocation.fails_closed:
                yield Denial(invocation.problem)
            return
        matcher = self._policies.matcher
        names = names_of(write, invocation.kind, matcher, self._authorizer)
        spec = invocation.policy["spec"]
        if "paramKind" in spec:
            names = names.having(params=lambda: invocation.params)
        for denial in denials(spec, names, total):
            if denial.reason or invocation.fails_closed:
                yield denial


def _actions(invocation: Invocation) -> list[str]:
    """Return the actions; a wrong configuration always denies."""
    if invocation.problem or invocation.binding is None:
        return ["Deny"]
    actions: list[str] = invocation.binding["spec"].get("validationActions") or []
    return actions


def _refusal(invocation: Invocation, denial: Denial, write: Write) -> Refusal:
    policy, binding = invocation.names
    who = f"ValidatingAdmissionPolicy '{policy}'"
    if binding:
        who += f" with binding '{binding}'"
    message = f"{who} denied request: {denial.message}"
    asked, name = write.requested, write.shown_name or "Unknown"
    causes = [{"message": message}]
    found = forbidden(asked.group, asked.plural, name, message, causes)
    reason, code = _INVALID
    if denial.reason in _CODES:
        reason, code = denial.reason, _CODES[denial.reason]
    return Refusal(code, reason, found.message, found.details)
