"""Policies get their status on a cluster in memory, on virtual time."""

import asyncio
import json
from dataclasses import dataclass
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
from controller_manager.client.rest.client import Client, PatchType
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.controllers.cluster.validatingadmissionpolicystatus import (
    type_checking,
)
from tests.clusters import Cluster, make_config
from tests.controllers.cluster.validatingadmissionpolicystatus.builders import (
    policy_json,
    rule,
)
from tests.controllers.custom_resources import DEFINITIONS, definition
from tests.meddler import Meddler

API = "admissionregistration.k8s.io/v1"
CONFIG = make_config(controllers=("validatingadmissionpolicy-status-controller",))


def add(cluster: Cluster, name: str, *expressions: str, **more: Any) -> None:
    found = policy_json(name, *expressions, **more)
    cluster.add("ValidatingAdmissionPolicy", name, API, **found)


async def status(client: Client, name: str) -> JSON:
    policy = await client.get_json(VALIDATING_ADMISSION_POLICIES, "", name)
    found: JSON = policy["status"]
    return found


@pytest.mark.looptime
async def test_a_right_policy_is_observed(cluster: Cluster) -> None:
    """With one write a generation; the write is upstream's."""
    right = "object.spec.replicas <= 5 && object.metadata.name.startsWith('a')"
    add(cluster, "right", right)
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(600)
        found = await status(cluster.client, "right")
        policy = await cluster.client.get_json(
            VALIDATING_ADMISSION_POLICIES, "", "right"
        )
    assert found == {"observedGeneration": 1, "typeChecking": {}}
    (write,) = recording.writes
    assert write.path.endswith("/validatingadmissionpolicies/right/status")
    assert json.loads(write.body) == {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "right", "uid": policy["metadata"]["uid"]},
        "status": {"observedGeneration": 1, "typeChecking": {}},
    }
    owners = [
        each["manager"]
        for each in policy["metadata"]["managedFields"]
        if each["operation"] == "Apply"
    ]
    assert owners == ["validatingadmissionpolicy-status-controller"]


@pytest.mark.looptime
async def test_a_wrong_policy_has_warnings_until_it_is_mended(cluster: Cluster) -> None:
    """A field of deployments is misspelt; upstream's documentation has this example."""
    add(cluster, "wrong", "object.replicas > 1")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        wrong = await status(cluster.client, "wrong")
        validations = [{"expression": "object.spec.replicas > 1"}]
        await cluster.client.patch(
            VALIDATING_ADMISSION_POLICIES,
            "",
            "wrong",
            {"spec": {"validations": validations}},
            PatchType.MERGE,
        )
        await asyncio.sleep(1)
        mended = await status(cluster.client, "wrong")
    warning = (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n"
        " | object.replicas > 1\n"
        " | ......^\n"
    )
    expression = {"fieldRef": "spec.validations[0].expression", "warning": warning}
    assert wrong == {
        "observedGeneration": 1,
        "typeChecking": {"expressionWarnings": [expression]},
    }
    assert mended == {"observedGeneration": 2, "typeChecking": {}}
    assert len(recording.writes) == 2


@pytest.mark.looptime
async def test_parameters_of_a_kind_that_does_not_exist_are_undeclared(
    cluster: Cluster,
) -> None:
    absent = {"apiVersion": "rules.example.com/v1", "kind": "Limit"}
    present = {"apiVersion": "v1", "kind": "ConfigMap"}
    add(cluster, "absent", "params.max > 1", paramKind=absent)
    add(cluster, "present", "params.data['max'] == '1'", paramKind=present)
    add(cluster, "misspelt", "params.dat['max'] == '1'", paramKind=present)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        found = {
            name: await status(cluster.client, name)
            for name in ("absent", "present", "misspelt")
        }
    texts = {
        name: [
            warning["warning"].partition(": ERROR: ")[2].partition("\n")[0]
            for warning in each["typeChecking"].get("expressionWarnings", [])
        ]
        for name, each in found.items()
    }
    assert texts == {
        "absent": ["<input>:1:1: undeclared reference to 'params' (in container '')"],
        "present": [],
        "misspelt": ["<input>:1:7: undefined field 'dat'"],
    }


@pytest.mark.looptime
async def test_kinds_without_a_schema_are_left_out(cluster: Cluster) -> None:
    rules = [rule("apps", "v1", "nothings"), rule("", "v1", "pods")]
    add(cluster, "some", "object.spec.nodeNam == ''", rules=rules)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        found = await status(cluster.client, "some")
    (warning,) = found["typeChecking"]["expressionWarnings"]
    assert warning["warning"].startswith("/v1, Kind=Pod: ERROR: <input>:1:12: ")


@pytest.mark.looptime
async def test_a_policy_is_checked_again_if_no_schema_can_be_read(
    cluster: Cluster,
) -> None:
    """Upstream has most schemas compiled in, and skips the others for good."""
    add(cluster, "wrong", "object.replicas > 1")

    async def refuse(request: Request) -> Response | None:
        is_document = request.path.startswith("/openapi")
        return Response(503, {}, b"busy") if is_document else None

    meddler = Meddler(cluster.transport, refuse)
    async with cluster.manager(CONFIG, meddler) as recording:
        await asyncio.sleep(60)
        assert recording.writes == []
        meddler.meddle = None
        await asyncio.sleep(130)
        found = await status(cluster.client, "wrong")
    assert found["observedGeneration"] == 1
    assert len(found["typeChecking"]["expressionWarnings"]) == 1


@dataclass
class LateSchemas:
    """Serves the schema of widgets once `is_there`; its spec has a size."""

    inner: Transport
    is_there: bool = False
    looks: int = 0

    @property
    def host(self) -> str:
        return self.inner.host

    async def request(self, request: Request) -> Response:
        if request.path != "/openapi/v3/apis/example.com/v1":
            return await self.inner.request(request)
        self.looks += 1
        return Response(200, {}, json.dumps(self._document()).encode())

    def _document(self) -> JSON:
        kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
        size = {"type": "object", "properties": {"size": {"type": "integer"}}}
        widget = {
            "type": "object",
            "properties": {"spec": size},
            "x-kubernetes-group-version-kind": [kind],
        }
        schemas = {"com.example.v1.Widget": widget} if self.is_there else {}
        return {"openapi": "3.0.0", "components": {"schemas": schemas}}

    async def stream(self, request: Request) -> Stream:
        return await self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


@pytest.mark.looptime
async def test_the_schema_of_a_new_custom_resource_is_waited_for(
    cluster: Cluster,
) -> None:
    """It comes a moment after the resource; upstream would skip the resource."""
    await cluster.client.create_json(DEFINITIONS, "", json.dumps(definition()).encode())
    wrong = "object.spec.size > '1' && object.spec.colour == 'red'"
    add(cluster, "wrong", wrong, rules=[rule("example.com", "v1", "widgets")])
    transport = LateSchemas(cluster.transport)
    async with cluster.manager(CONFIG, transport):
        await asyncio.sleep(2)
        assert await status(cluster.client, "wrong") == {}
        transport.is_there = True
        await asyncio.sleep(5)
        found = await status(cluster.client, "wrong")
    (warning,) = found["typeChecking"]["expressionWarnings"]
    assert warning["warning"] == (
        "example.com/v1, Kind=Widget: ERROR: <input>:1:18: found no matching overload "
        "for '_>_' applied to '(int, string)'\n"
        " | object.spec.size > '1' && object.spec.colour == 'red'\n"
        " | .................^\n"
        "ERROR: <input>:1:38: undefined field 'colour'\n"
        " | object.spec.size > '1' && object.spec.colour == 'red'\n"
        " | .....................................^\n"
    )


@pytest.mark.looptime
async def test_a_schema_that_never_comes_is_not_waited_for_any_longer(
    cluster: Cluster,
) -> None:
    await cluster.client.create_json(DEFINITIONS, "", json.dumps(definition()).encode())
    add(cluster, "some", "true", rules=[rule("example.com", "v1", "widgets")])
    transport = LateSchemas(cluster.transport)
    async with cluster.manager(CONFIG, transport):
        await asyncio.sleep(10)
        found = await status(cluster.client, "some")
        looks = transport.looks
        await asyncio.sleep(600)
    assert found == {"observedGeneration": 1, "typeChecking": {}}
    assert transport.looks == looks == 11


@pytest.mark.looptime
async def test_what_upstreams_tests_check_is_found(cluster: Cluster) -> None:
    add(cluster, "right", "object.spec.replicas > 1")
    message = "'wants replicas > 1, got ' + object.spec.replicas"
    confused = {
        "expression": "object.spec.replicas > '1'",
        "messageExpression": message,
    }
    add(cluster, "confused", validations=[confused])
    add(
        cluster,
        "both",
        "object.spec.replicas < 100",
        "object.spec.replicas > '1' && object.spec.nonExisting == 1",
    )
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        found = {
            name: await status(cluster.client, name)
            for name in ("right", "confused", "both")
        }
    errors = {
        name: {
            each["fieldRef"]: [
                line.partition(": ")[2].rpartition(">:1:")[2].partition(": ")[2]
                for line in each["warning"].splitlines()
                if "ERROR" in line
            ]
            for each in value["typeChecking"].get("expressionWarnings", [])
        }
        for name, value in found.items()
    }
    greater = "found no matching overload for '_>_' applied to '(int, string)'"
    added = "found no matching overload for '_+_' applied to '(string, int)'"
    assert errors == {
        "right": {},
        "confused": {
            "spec.validations[0].expression": [greater],
            "spec.validations[0].messageExpression": [added],
        },
        "both": {
            "spec.validations[1].expression": [greater, "undefined field 'nonExisting'"]
        },
    }


@pytest.mark.looptime
async def test_its_role_is_enough() -> None:
    cluster = Cluster(rbac=True)
    add(cluster, "wrong", "object.replicas > 1")
    name = "validatingadmissionpolicy-status-controller"
    config = make_config(controllers=(name,), use_service_account_credentials=True)
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(1)
        found = await status(cluster.client, "wrong")
    assert len(found["typeChecking"]["expressionWarnings"]) == 1
    assert {each.status for each in recording.writes} <= {200, 201}


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


def test_an_expression_for_the_message_is_checked() -> None:
    wrong = Validation("object.foo == 'a'", "object.foo + 114514")
    found = warnings(
        ValidatingAdmissionPolicySpec(validations=(wrong,)),
        type_checking.Kinds([("/v1, Kind=A", FOO)], None),
    )
    assert found.keys() == {"spec.validations[0].messageExpression"}


def test_parameters_have_a_type_or_are_not_declared() -> None:
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
