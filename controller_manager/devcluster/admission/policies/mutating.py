"""The admission plugin MutatingAdmissionPolicy (policy/mutating/dispatcher.go)."""

from collections.abc import Hashable
from typing import Any, ClassVar

from controller_manager.devcluster.admission.changes import take_changed
from controller_manager.devcluster.admission.expressions import (
    MOST_STEPS,
    MOST_STEPS_OF_WRITE,
    OUT_OF_BUDGET,
    names_of,
)
from controller_manager.devcluster.admission.match_conditions import (
    ConditionError,
    hold,
)
from controller_manager.devcluster.admission.matching import is_exempt_from_policies
from controller_manager.devcluster.admission.rounds import Rounds
from controller_manager.devcluster.admission.versions import in_requested
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.server.apimachinery.statuses import (
    Refusal,
    forbidden,
)
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.security.authorization import Authorizer

from .bindings import Invocation, Policies
from .mutations import MutationError, mutated
from .variables import Variables


class _PolicyError(Exception):
    """A policy cannot be evaluated; `is_own` is false for wrong configuration."""

    def __init__(self, message: str, *, is_own: bool = True) -> None:
        super().__init__(message)
        self.is_own = is_own


class MutatingAdmissionPolicy(Plugin):
    """Lets the bound policies change an object, one after the other."""

    name: ClassVar = "MutatingAdmissionPolicy"
    mutates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def __init__(self, policies: Policies, authorizer: Authorizer) -> None:
        self._policies = policies
        self._authorizer = authorizer

    def acts(self) -> bool:
        """Tell whether there is a policy with a binding."""
        return self._policies.are_bound

    def mutate(self, write: Write) -> None:
        """Change the object by all matching policies; raises Refusal.

        A policy with failurePolicy Fail that fails refuses the write.
        """
        if not self.acts() or is_exempt_from_policies(write) or write.obj is None:
            return
        refusals: list[tuple[Invocation, _PolicyError]] = []
        rounds, total = Rounds.of(write, self.name), Budget(MOST_STEPS_OF_WRITE)
        for invocation in [*self._policies.invocations(write)]:
            try:
                self._invoke(invocation, write, rounds, total)
            except _PolicyError as problem:
                if invocation.fails_closed:
                    refusals.append((invocation, problem))
        rounds.end(write)
        if refusals:
            raise _refusal(refusals, write)

    def _invoke(
        self, invocation: Invocation, write: Write, rounds: Rounds, total: Budget
    ) -> None:
        """Let one policy change the object, with one parameter; raises _PolicyError."""
        if invocation.problem:
            raise _PolicyError(invocation.problem, is_own=False)
        spec = invocation.policy["spec"]
        try:
            if not hold(
                spec.get("matchConditions") or (), self._names(invocation, write)
            ):
                return
        except ConditionError as error:
            raise _PolicyError(str(error)) from None
        key = _key(invocation)
        if rounds.leaves_out(key, write):
            return
        changed = self._mutate(invocation, write, Budget(MOST_STEPS, total))
        policy = spec.get("reinvocationPolicy", "Never")
        rounds.note(key, write, changed=changed, policy=policy)

    def _names(self, invocation: Invocation, write: Write) -> Any:
        matcher = self._policies.matcher
        names = names_of(write, invocation.kind, matcher, self._authorizer)
        if "paramKind" in invocation.policy["spec"]:
            return names.having(params=lambda: invocation.params)
        return names

    def _mutate(self, invocation: Invocation, write: Write, budget: Budget) -> bool:
        """Carry out the mutations; tell whether they change the object."""
        spec, kind = invocation.policy["spec"], invocation.kind
        is_other = False
        for mutation in spec["mutations"]:
            names = self._names(invocation, write)
            variables = Variables(spec.get("variables") or (), names, budget)
            known = names.having(variables=lambda found=variables: found)
            obj = in_requested(write, kind, write.obj) or {}
            try:
                changed = mutated(mutation, obj, kind, known, budget)
                if changed != obj:
                    take_changed(write, changed, kind)
                    is_other = True
            except (MutationError, Refusal) as error:
                raise _PolicyError(str(error)) from None
            except OutOfBudgetError:
                raise _PolicyError(OUT_OF_BUDGET) from None
        return is_other


def _key(invocation: Invocation) -> Hashable:
    metadata = (invocation.params or {}).get("metadata", {})
    params = (metadata.get("namespace", ""), metadata.get("name", ""))
    return (*invocation.names, *params)


def _refusal(problems: list[tuple[Invocation, _PolicyError]], write: Write) -> Refusal:
    """Return a refusal with the message of the first, and all among the causes."""
    texts = [_text(invocation, problem) for invocation, problem in problems]
    asked, name = write.requested, write.shown_name or "Unknown"
    causes = [{"message": each} for each in texts]
    found = forbidden(asked.group, asked.plural, name, texts[0], causes)
    reason = "Invalid" if problems[0][1].is_own else "Forbidden"
    return Refusal(found.code, reason, texts[0], found.details)


def _text(invocation: Invocation, problem: _PolicyError) -> str:
    policy, binding = invocation.names
    if binding:
        return f"policy '{policy}' with binding '{binding}' denied request: {problem}"
    return f'policy "{policy}" denied request: {problem}'
