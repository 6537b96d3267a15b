"""Policies get their status on a cluster in memory, on virtual time."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from controller_manager.api.admissionregistration.v1 import (
    VALIDATING_ADMISSION_POLICIES,
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
from controller_manager.client.rest.transport import Response
from controller_manager.controllers.cluster.validatingadmissionpolicystatus import (
    type_checking,
)
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.custom_resources import DEFINITIONS, definition
from tests.controllers.hands import Before, Hands
from tests.controllers.scenarios import Scenario, scenarios

from .builders import policy_json, rule

pytestmark = pytest.mark.looptime

WIDGETS = [["example.com", "v1", "widgets"]]
NAME = "validatingadmissionpolicy-status-controller"
UNDECLARED = "undeclared reference to 'params' (in container '')"
GREATER = "found no matching overload for '_>_' applied to '(int, string)'"


def config() -> Config:
    return make_config(controllers=(NAME,), use_service_account_credentials=True)


class Policies(Hands):
    def policy(
        self,
        name: str,
        *expressions: str,
        about: Sequence[Sequence[str]] = (),
        **more: Any,
    ) -> None:
        """Add a policy with expressions, `about` other resources than deployments."""
        rules = [rule(*each) for each in about]
        given = more.pop("expressions", expressions)
        spec = policy_json(name, *given, rules=rules, **more)["spec"]
        self.put(VALIDATING_ADMISSION_POLICIES, name, spec=spec)

    def status(self, name: str) -> JSON:
        return dict(self.stored(VALIDATING_ADMISSION_POLICIES, name)["status"])

    def appliers(self, name: str) -> list[str]:
        found = self.stored(VALIDATING_ADMISSION_POLICIES, name)["metadata"]
        fields = found["managedFields"]
        return [each["manager"] for each in fields if each["operation"] == "Apply"]

    def errors(self) -> dict[str, dict[str, list[str]]]:
        """Return the errors of each field of each policy."""
        names = self.names(VALIDATING_ADMISSION_POLICIES)
        found = {name: self.status(name)["typeChecking"] for name in names}
        return {
            name: {
                each["fieldRef"].removeprefix("spec.validations"): [
                    line.partition("<input>:")[2].partition(": ")[2]
                    for line in each["warning"].splitlines()
                    if "ERROR" in line
                ]
                for each in checked.get("expressionWarnings", ())
            }
            for name, checked in found.items()
        }


@pytest.fixture
async def cluster() -> Policies:
    return Policies()


@scenarios("cluster/validatingadmissionpolicystatus")
async def test_policies_get_their_status(scenario: Scenario) -> None:
    await scenario.play(Policies, config)


class LateSchemas:
    """Serves the schema of widgets once `is_there`; its spec has a size."""

    def __init__(self, cluster: Policies) -> None:
        self.is_there = False
        path = "/openapi/v3/apis/example.com/v1"
        self.transport = Before(cluster, "GET", path, self._answer, 9999)

    def _answer(self) -> Response:
        kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
        size = {"type": "object", "properties": {"size": {"type": "integer"}}}
        widget = {
            "type": "object",
            "properties": {"spec": size},
            "x-kubernetes-group-version-kind": [kind],
        }
        schemas = {"com.example.v1.Widget": widget} if self.is_there else {}
        document = {"openapi": "3.0.0", "components": {"schemas": schemas}}
        return Response(200, {}, json.dumps(document).encode())


async def test_the_schema_of_a_new_resource_is_waited_for(cluster: Policies) -> None:
    """It comes a moment after the resource; upstream would skip the resource."""
    await cluster.client.create_json(DEFINITIONS, "", json.dumps(definition()).encode())
    wrong = "object.spec.size > '1' && object.spec.colour == 'red'"
    cluster.policy("wrong", wrong, about=WIDGETS)
    late = LateSchemas(cluster)
    async with cluster.manager(config(), late.transport):
        await asyncio.sleep(2)
        assert cluster.status("wrong") == {}
        late.is_there = True
        await asyncio.sleep(5)
    (warning,) = cluster.status("wrong")["typeChecking"]["expressionWarnings"]
    assert warning["warning"] == (
        f"example.com/v1, Kind=Widget: ERROR: <input>:1:18: {GREATER}\n"
        f" | {wrong}\n"
        " | .................^\n"
        "ERROR: <input>:1:38: undefined field 'colour'\n"
        f" | {wrong}\n"
        " | .....................................^\n"
    )


async def test_a_schema_that_never_comes_ends_the_wait(cluster: Policies) -> None:
    await cluster.client.create_json(DEFINITIONS, "", json.dumps(definition()).encode())
    cluster.policy("some", "true", about=WIDGETS)
    late = LateSchemas(cluster)
    async with cluster.manager(config(), late.transport):
        await asyncio.sleep(10)
        found = cluster.status("some")
        looks = late.transport.seen
        await asyncio.sleep(600)
    assert found == {"observedGeneration": 1, "typeChecking": {}}
    assert late.transport.seen == looks == 11


def served(group: str, version: str, plural: str, kind: str) -> ServedResource:
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
    body = msgspec.json.encode(policy_json("p", "true", rules=rules))
    return msgspec.json.decode(body, type=ValidatingAdmissionPolicy)


@pytest.mark.parametrize("name", KINDS)
def test_a_policy_is_about_the_kinds_that_it_names(name: str) -> None:
    """As upstream's mapper finds them, in order."""
    rules, expected = KINDS[name]
    found = type_checking.kinds_to_check(policy(rules), SERVED)
    assert [str(each) for each in found] == expected


def test_a_policy_without_rules_is_about_nothing() -> None:
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
    return {
        each["fieldRef"]: each["warning"]
        for each in type_checking.warnings_of(found, kinds)
    }


def test_each_kind_is_checked_by_itself() -> None:
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


def test_parameters_have_a_type_or_are_not_declared() -> None:
    objects = [("/v1, Kind=A", FOO)]
    checked = spec("object.foo == params.bar", "params.baz == params.foo")
    typed = warnings(checked, type_checking.Kinds(objects, BAR))
    assert typed.keys() == {"spec.validations[1].expression"}
    assert "undefined field 'baz'" in typed["spec.validations[1].expression"]
    untyped = warnings(checked, type_checking.Kinds(objects, None))
    assert [UNDECLARED in each for each in untyped.values()] == [True, True]


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
