"""Evaluates expressions about a write (pkg/admission/plugin/cel).

Each expression takes steps from a budget, which ends long evaluations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.cel.syntax import SyntaxProblem
from controller_manager.devcluster.apiserver.admission import Write
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.security import (
    Attributes,
    Authorizer,
    User,
    account_user,
)
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.library.authorization import (
    Asked,
    AuthorizerValue,
    Decision,
    ResourceCheck,
)
from controller_manager.devcluster.cel.values import EvaluationError, Value
from controller_manager.devcluster.registry.apiextensions.schemas.rules import (
    program_of,
)

from .writes import Matcher, in_requested, is_namespace, request_of

# Evaluates expressions about a write (pkg/admission/plugin/cel).

MOST_STEPS: Final = 300_000
"""The most steps of all expressions of one policy together: about a second."""

MOST_STEPS_OF_WRITE: Final = 1_000_000
"""The most steps of all policies for one write. Upstream has no such limit."""

MOST_CONDITION_STEPS: Final = MOST_STEPS // 4
OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules "
    "will be run"
)
_NAMESPACE_METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "uid",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "resourceVersion",
    "finalizers",
)


class Names(Mapping[str, Value]):
    """The values of names in expressions; the first use of a name makes its value."""

    def __init__(self, makers: Mapping[str, Callable[[], Value]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        """Return the value of a name; raises EvaluationError."""
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether a name has a value."""
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._makers)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._makers)

    def having(self, **makers: Callable[[], Value]) -> "Names":
        """Return names with some more."""
        found = Names({**self._makers, **makers})
        found._made = {k: v for k, v in self._made.items() if k not in makers}
        return found


def names_of(
    write: Write, kind: Kind, matcher: Matcher, authorizer: Authorizer
) -> Names:
    """Return the values of a write for expressions, with objects of `kind`."""
    return Names(
        {
            "object": lambda: in_requested(write, kind, write.obj),
            "oldObject": lambda: in_requested(write, kind, write.old),
            "request": lambda: request_of(write, kind),
            "namespaceObject": lambda: _namespace(write, matcher),
            "authorizer": lambda: _authorizer(write, authorizer),
            "authorizer.requestResource": lambda: _asked_resource(write, authorizer),
        }
    )


def evaluated(expression: str, names: Mapping[str, Value], budget: Budget) -> Value:
    """Return the value of an expression.

    Raises EvaluationError with upstream's message, and OutOfBudgetError.
    """
    try:
        return program_of(expression).evaluate(names, budget)
    except (EvaluationError, SyntaxProblem) as error:
        text = f"expression '{expression}' resulted in error: {error}"
        raise EvaluationError(text) from None


def _namespace(write: Write, matcher: Matcher) -> JSON | None:
    """Return the parts of the namespace that expressions may see."""
    if not write.namespace or is_namespace(write.kind):
        return None
    found = matcher.namespace(write.namespace)
    metadata = found["metadata"]
    return {
        "metadata": {k: metadata[k] for k in _NAMESPACE_METADATA if k in metadata},
        "spec": found.get("spec", {}),
        "status": found.get("status", {}),
    }


def _authorizer(write: Write, authorizer: Authorizer) -> AuthorizerValue:
    def decide(asked: Asked) -> Decision:
        user = write.user
        if asked.account:
            user = _account(*asked.account)
        attributes = Attributes(
            asked.verb,
            path=asked.path,
            group=asked.group,
            resource=asked.resource,
            subresource=asked.subresource,
            namespace=asked.namespace,
            name=asked.name,
        )
        return Decision(authorizer.allows(user, attributes))

    return AuthorizerValue(decide)


def _account(namespace: str, name: str) -> User:
    return account_user(namespace, name, "")


def _asked_resource(write: Write, authorizer: Authorizer) -> ResourceCheck:
    """Return the check of the resource of the request, with all its parts."""
    kind = write.requested
    asked = Asked(
        group=kind.group,
        resource=kind.plural,
        subresource=write.subresource,
        namespace=write.namespace,
        name=write.name,
    )
    return ResourceCheck(_authorizer(write, authorizer).decide, asked)


# Conditions of a webhook or a policy (webhook/matchconditions/matcher.go).


class ConditionError(Exception):
    """Conditions cannot be evaluated; the message is upstream's."""


def hold(conditions: Iterable[JSON], names: Mapping[str, Value]) -> bool:
    """Tell whether all conditions are true.

    A false condition decides, also if others have errors. Otherwise raises
    ConditionError for errors.
    """
    budget, problems = Budget(MOST_CONDITION_STEPS), list[str]()
    for each in conditions:
        try:
            if evaluated(each["expression"], names, budget) is False:
                return False
        except EvaluationError as error:
            problems.append(str(error))
        except OutOfBudgetError:
            raise ConditionError(OUT_OF_BUDGET) from None
    if len(problems) > 1:
        raise ConditionError(f"[{', '.join(dict.fromkeys(problems))}]")
    if problems:
        raise ConditionError(problems[0])
    return True
