"""Objects are brought into the form that Go would store."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.schema import Checker, TypeMismatch
from tests.controllers.builders import deployment_json


def test_unknown_fields_are_named_and_empty_ones_dropped() -> None:
    """As Go would store the object."""
    checker = Checker()
    obj = deployment_json(paused=False, minReadySeconds=0, bogus=1)
    obj["spec"]["template"]["spec"]["containers"][0].update(
        {"env": [], "imagee": "x", "resources": {"limits": {"cpu": 1}}}
    )
    obj["metadata"]["labels"] = None
    checked = checker.check(obj, "V1Deployment")
    assert checker.unknown == [
        "spec.template.spec.containers[0].imagee",
        "spec.bogus",
    ]
    (container,) = checked["spec"]["template"]["spec"]["containers"]
    assert container == {
        "name": "c",
        "image": "app:v1",
        "resources": {"limits": {"cpu": "1"}},
    }
    assert {"paused", "minReadySeconds"} & checked["spec"].keys() == set()
    assert "labels" not in checked["metadata"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"replicas": "3"},
            (
                "cannot unmarshal string into Go struct field "
                "DeploymentSpec.spec.replicas of type int32"
            ),
        ),
        ({"replicas": 2**31}, "cannot unmarshal number"),
        ({"paused": "yes"}, "DeploymentSpec.spec.paused of type bool"),
        ({"selector": []}, "cannot unmarshal array"),
        (
            {"template": {"spec": {"containers": {}}}},
            "PodSpec.spec.template.spec.containers of type []V1Container",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_named_as_go_does(spec: JSON, message: str) -> None:
    """With the struct, the path and the type that is wanted."""
    with pytest.raises(TypeMismatch) as caught:
        Checker().check({"spec": spec}, "V1Deployment")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["garbage", "2026-01-01", "12:00", ""])
def test_a_time_must_be_one(text: str) -> None:
    """Or no reader could make sense of it later."""
    with pytest.raises(TypeMismatch):
        Checker().check({"lastTimestamp": text}, "CoreV1Event")
