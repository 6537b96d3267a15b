"""Policies get their status on a cluster in memory, on virtual time."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from controller_manager.api.admissionregistration.v1 import (
    VALIDATING_ADMISSION_POLICIES,
)
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import Client, PatchType
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from tests.clusters import Cluster, make_config
from tests.controllers.cluster.validatingadmissionpolicystatus.builders import (
    policy_json,
    rule,
)
from tests.controllers.custom_resources import DEFINITIONS, definition
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

API = "admissionregistration.k8s.io/v1"
CONFIG = make_config(controllers=("validatingadmissionpolicy-status-controller",))


def add(cluster: Cluster, name: str, *expressions: str, **more: Any) -> None:
    """Create a policy."""
    found = policy_json(name, *expressions, **more)
    cluster.add("ValidatingAdmissionPolicy", name, API, **found)


async def status(client: Client, name: str) -> JSON:
    """Return the status of a policy."""
    policy = await client.get_json(VALIDATING_ADMISSION_POLICIES, "", name)
    found: JSON = policy["status"]
    return found


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


async def test_a_wrong_policy_has_warnings_until_it_is_mended(
    cluster: Cluster,
) -> None:
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


async def test_other_changes_cost_nothing(cluster: Cluster) -> None:
    """Only a new generation is checked: labels are none."""
    add(cluster, "right", "true")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        labels = {"metadata": {"labels": {"a": "b"}}}
        await cluster.client.patch(VALIDATING_ADMISSION_POLICIES, "", "right", labels)
        await asyncio.sleep(600)
    assert len(recording.writes) == 1


async def test_parameters_of_a_kind_that_does_not_exist_are_undeclared(
    cluster: Cluster,
) -> None:
    """Those of one that does have its fields."""
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


async def test_kinds_without_a_schema_are_left_out(cluster: Cluster) -> None:
    """Custom resources whose definition says nothing of their fields, for example."""
    rules = [rule("apps", "v1", "nothings"), rule("", "v1", "pods")]
    add(cluster, "some", "object.spec.nodeNam == ''", rules=rules)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        found = await status(cluster.client, "some")
    (warning,) = found["typeChecking"]["expressionWarnings"]
    assert warning["warning"].startswith("/v1, Kind=Pod: ERROR: <input>:1:12: ")


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


async def test_a_schema_that_never_comes_is_not_waited_for_any_longer(
    cluster: Cluster,
) -> None:
    """After five seconds the kind is left out."""
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


async def test_what_upstreams_tests_check_is_found(cluster: Cluster) -> None:
    """The policies of its e2e test and of its controller's test."""
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


async def test_its_role_is_enough() -> None:
    """Every account may read discovery and OpenAPI."""
    cluster = Cluster(rbac=True)
    add(cluster, "wrong", "object.replicas > 1")
    name = "validatingadmissionpolicy-status-controller"
    config = make_config(controllers=(name,), use_service_account_credentials=True)
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(1)
        found = await status(cluster.client, "wrong")
    assert len(found["typeChecking"]["expressionWarnings"]) == 1
    assert {each.status for each in recording.writes} <= {200, 201}
