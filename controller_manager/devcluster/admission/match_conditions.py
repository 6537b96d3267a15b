"""Conditions of a webhook or a policy (webhook/matchconditions/matcher.go)."""

from collections.abc import Iterable, Mapping

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.values import EvaluationError, Value

from .expressions import MOST_CONDITION_STEPS, OUT_OF_BUDGET, evaluated


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
