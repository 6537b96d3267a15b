"""The variables of a policy (pkg/admission/plugin/cel/composition.go)."""

from collections.abc import Sequence

from controller_manager.api.json_objects import JSON
from controller_manager.control.cel.syntax import SyntaxProblem
from controller_manager.devcluster.admission.expressions import Names
from controller_manager.devcluster.cel.evaluation import Budget
from controller_manager.devcluster.cel.values import EvaluationError, Value
from controller_manager.devcluster.kinds.apiextensions.schemas.rules import program_of


class Variables(dict[str, Value]):
    """The values of variables; each is evaluated once, when it is needed."""

    def __init__(self, variables: Sequence[JSON], names: Names, budget: Budget) -> None:
        """Take the variables of a policy, and the names that they may use.

        A variable may use the variables before it.
        """
        super().__init__((each["name"], None) for each in variables)
        self._expressions = {each["name"]: each["expression"] for each in variables}
        self._names = names.having(variables=lambda: self)
        self._budget = budget
        self._problems: dict[str, str] = {}
        self._known: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        """Return the value of a variable; raises EvaluationError."""
        if name not in self._known:
            self._known.add(name)
            self._evaluate(name)
        if problem := self._problems.get(name):
            raise EvaluationError(problem)
        return super().__getitem__(name)

    def _evaluate(self, name: str) -> None:
        try:
            program = program_of(self._expressions[name])
            self[name] = program.evaluate(self._names, self._budget)
        except (EvaluationError, SyntaxProblem) as error:
            text = f'composited variable "{name}" fails to evaluate: {error}'
            self._problems[name] = text
