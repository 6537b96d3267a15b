"""The kinds that a policy matches, and the warnings about it, as tables."""

import msgspec
import pytest

from controller_manager.api.admissionregistration.v1 import (
    ParamKind,
    ResourceRule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from controller_manager.api.json_objects import JSON
from controller_manager.cel.types import INT, STRING, object_of
from controller_manager.client.discovery.resources import ServedResource
from controller_manager.controllers.cluster.validatingadmissionpolicystatus import (
    type_checking,
)
from tests.controllers.cluster.validatingadmissionpolicystatus.builders import (
    policy_json,
    rule,
)


def served(group: str, version: str, plural: str, kind: str) -> ServedResource:
    """Return a resource of the API server."""
    verbs = frozenset(("create", "list"))
    return ServedResource(group, version, plural, kind, namespaced=True, verbs=verbs)


SERVED = [
    served("", "v1", "pods", "Pod"),
    served("", "v1", "events", "Event"),
    served("events.k8s.io", "v1", "events", "Event"),
    served("apps", "v1", "deployments", "Deployment"),
    served("apps", "v1beta1", "deployments", "Deployment"),
    *(served("many.io", "v1", f"r{each:02}", f"R{each:02}") for each in range(12)),
]

KINDS: dict[str, tuple[list[JSON], list[str]]] = {
    "one resource": ([rule("apps", "v1", "deployments")], ["apps/v1, Kind=Deployment"]),
    "in order": (
        [rule("apps", "v1", "deployments"), rule("", "v1", "pods")],
        ["/v1, Kind=Pod", "apps/v1, Kind=Deployment"],
    ),
    "each once": (
        [rule("apps", "v1", "deployments"), rule("apps", "v1", "deployments")],
        ["apps/v1, Kind=Deployment"],
    ),
    "any resource": ([rule("apps", "v1", "*")], []),
    "any version": ([rule("apps", "*", "deployments")], []),
    "any group": ([rule("*", "v1", "deployments")], []),
    "subresources": ([rule("", "v1", "pods/*", "pods/status")], []),
    "beside a wildcard": ([rule("", "v1", "pods/*", "pods")], ["/v1, Kind=Pod"]),
    "a version that is not served": ([rule("apps", "v2", "deployments")], []),
    "the core group stands for any": (
        [rule("", "v1", "events")],
        ["/v1, Kind=Event", "events.k8s.io/v1, Kind=Event"],
    ),
    "at most ten of a rule, and no more rules": (
        [
            rule("many.io", "v1", *(f"r{each:02}" for each in range(12))),
            rule("", "v1", "pods"),
        ],
        [f"many.io/v1, Kind=R{each:02}" for each in range(10)],
    ),
}


def policy(rules: list[JSON]) -> ValidatingAdmissionPolicy:
    """Return a policy with rules."""
    body = msgspec.json.encode(policy_json("p", "true", rules=rules))
    return msgspec.json.decode(body, type=ValidatingAdmissionPolicy)


@pytest.mark.parametrize("name", KINDS)
def test_a_policy_is_about_the_kinds_that_it_names(name: str) -> None:
    """As upstream's mapper finds them, in order."""
    rules, expected = KINDS[name]
    found = type_checking.kinds_to_check(policy(rules), SERVED)
    assert [str(each) for each in found] == expected


def test_a_policy_without_rules_is_about_nothing() -> None:
    """Nor has one without parameters a kind of them."""
    empty = ValidatingAdmissionPolicy()
    assert type_checking.kinds_to_check(empty, SERVED) == []
    assert type_checking.params_kind(empty) is None
    assert list(type_checking._named(ResourceRule())) == []
    spec = ValidatingAdmissionPolicySpec(param_kind=ParamKind("v1", "ConfigMap"))
    core = ValidatingAdmissionPolicy(spec=spec)
    assert type_checking.params_kind(core) == ("", "v1", "ConfigMap")


FOO = object_of({"foo": STRING})
BAR = object_of({"foo": INT, "bar": STRING})


def spec(*expressions: str, **more: str) -> ValidatingAdmissionPolicySpec:
    """Return a policy's spec with expressions, and with variables by name."""
    return ValidatingAdmissionPolicySpec(
        validations=tuple(Validation(each) for each in expressions),
        variables=tuple(Variable(*each) for each in more.items()),
    )


def warnings(
    found: ValidatingAdmissionPolicySpec, kinds: type_checking.Kinds
) -> dict[str, str]:
    """Return the warnings by their field."""
    return {
        each["fieldRef"]: each["warning"]
        for each in type_checking.warnings_of(found, kinds)
    }


def test_each_kind_is_checked_by_itself() -> None:
    """A warning has a part for each kind that the expression does not fit."""
    kinds = type_checking.Kinds([("/v1, Kind=A", FOO), ("b.io/v1, Kind=B", BAR)], None)
    found = warnings(spec("object.foo == 'bar'", "object.baz == 1"), kinds)
    assert found == {
        "spec.validations[0].expression": (
            "b.io/v1, Kind=B: ERROR: <input>:1:12: found no matching overload for "
            "'_==_' applied to '(int, string)'\n"
            " | object.foo == 'bar'\n"
            " | ...........^\n"
        ),
        "spec.validations[1].expression": (
            "/v1, Kind=A: ERROR: <input>:1:7: undefined field 'baz'\n"
            " | object.baz == 1\n"
            " | ......^\n"
            "\n"
            "b.io/v1, Kind=B: ERROR: <input>:1:7: undefined field 'baz'\n"
            " | object.baz == 1\n"
            " | ......^\n"
        ),
    }


def test_an_expression_for_the_message_is_checked() -> None:
    """In its own field."""
    wrong = Validation("object.foo == 'a'", "object.foo + 114514")
    found = warnings(
        ValidatingAdmissionPolicySpec(validations=(wrong,)),
        type_checking.Kinds([("/v1, Kind=A", FOO)], None),
    )
    assert found.keys() == {"spec.validations[0].messageExpression"}


def test_parameters_have_a_type_or_are_not_declared() -> None:
    """If the kind of the parameters does not exist, no expression may name them."""
    objects = [("/v1, Kind=A", FOO)]
    checked = spec("object.foo == params.bar", "params.baz == params.foo")
    typed = warnings(checked, type_checking.Kinds(objects, BAR))
    assert typed.keys() == {"spec.validations[1].expression"}
    assert "undefined field 'baz'" in typed["spec.validations[1].expression"]
    untyped = warnings(checked, type_checking.Kinds(objects, None))
    message = "undeclared reference to 'params' (in container '')"
    assert all(message in each for each in untyped.values())
    assert len(untyped) == 2


def test_variables_have_the_types_of_their_expressions() -> None:
    """Of each kind; those of wrong expressions may be anything."""
    kinds = type_checking.Kinds([("/v1, Kind=A", BAR)], None)
    checked = spec(
        "variables.n == 'x'",
        "variables.twice == 2",
        "variables.wrong == 2 && variables.broken == 3",
        "variables.absent == 1",
        n="object.foo",
        twice="variables.n * 2",
        wrong="object.baz",
        broken="object.",
    )
    found = warnings(checked, kinds)
    assert found.keys() == {
        "spec.validations[0].expression",
        "spec.validations[3].expression",
    }
    absent = found["spec.validations[3].expression"]
    assert "undefined field 'absent'" in absent


def test_what_cannot_be_read_has_no_warning() -> None:
    """The API server has read it, so the fault is here."""
    kinds = type_checking.Kinds([("/v1, Kind=A", FOO)], None)
    assert warnings(spec("object.foo ==", "object. .foo"), kinds) == {}
    assert warnings(spec("object.nothing"), type_checking.Kinds([], None)) == {}
