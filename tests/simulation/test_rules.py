"""A controller sends the writes that it declares, and changes nothing else."""

import json

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from tests.simulation.changes import differences, only
from tests.simulation.objects import Target, target_of
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.rules import WriteRules

PODS = "/api/v1/namespaces/default/pods"


class Scaler(Properties):
    controller = "scaler"
    may_write = (
        AllowedWrite(("patch",), "pods", only(("spec",))),
        AllowedWrite(("deletecollection",), "*"),
    )


def problems(
    method: str, path: str, *objects: JSON, controller: str = "scaler"
) -> list[str]:
    before, after = objects or (None, None)
    answer = Response(200, {}, json.dumps(after).encode())
    request = Request(method, path)
    write = Write(controller, target_of(path), request, answer, before, after)
    return list(WriteRules([Scaler]).problems(write))


def test_a_write_that_was_named_is_no_problem() -> None:
    """Verb and resource are allowed; the resource version may always change."""
    before = {"metadata": {"resourceVersion": "1"}, "spec": {"a": 1}}
    after = {"metadata": {"resourceVersion": "2"}, "spec": {"a": 2}}
    assert problems("PATCH", f"{PODS}/p", before, after) == []
    assert problems("DELETE", "/apis/apps/v1/namespaces/n/deployments") == []


def test_a_write_that_no_property_names_is_a_violation() -> None:
    """Another verb, another resource, another controller."""
    assert [
        *problems("DELETE", f"{PODS}/p"),
        *problems("PATCH", f"{PODS}/p/status"),
        *problems("PATCH", f"{PODS}/p", controller="other"),
        *problems("POST", PODS, controller=""),
    ] == [
        f"DELETE {PODS}/p: scaler may not delete pods",
        f"PATCH {PODS}/p/status: scaler may not patch pods/status",
        f"PATCH {PODS}/p: other may not patch pods",
        f"POST {PODS}: the manager may not create pods",
    ]


def test_a_write_that_changes_something_else_is_one() -> None:
    """The message has the path and both values."""
    before = {"metadata": {"labels": {"a": "1"}}, "spec": {"a": 1}}
    after: JSON = {"metadata": {}, "spec": {"a": 2}}
    assert problems("PATCH", f"{PODS}/p", before, after) == [
        f"PATCH {PODS}/p: scaler changed metadata.labels: {{'a': '1'}} to None"
    ]


def test_a_path_tells_its_resource_and_object() -> None:
    """Also the path of a namespace, and a path that names no object."""
    paths = {
        "/api/v1/namespaces/n/pods": Target("n", "pods"),
        "/api/v1/namespaces/n/pods/p/status": Target("n", "pods", "p", "status"),
        "/apis/apps/v1/namespaces/n/deployments/d": Target("n", "deployments", "d"),
        "/apis/apps/v1/deployments": Target("", "deployments"),
        "/api/v1/namespaces/n": Target("", "namespaces", "n"),
        "/api/v1/namespaces/n/finalize": Target("", "namespaces", "n", "finalize"),
        "/api/v1/nodes/a": Target("", "nodes", "a"),
        "/apis": Target(),
    }
    assert {path: target_of(path) for path in paths} == paths


def test_lists_of_equal_length_are_compared_one_by_one() -> None:
    """Other lists are compared as a whole."""
    before = {"a": [1, {"b": 2}], "c": [1]}
    after = {"a": [1, {"b": 3}], "c": []}
    assert list(differences(before, after)) == [
        (("a", "1", "b"), 2, 3),
        (("c",), [1], []),
    ]
