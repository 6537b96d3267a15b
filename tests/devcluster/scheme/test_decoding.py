"""Objects are brought into the form that Go would store."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.decoding import MOST_PROBLEMS, Decoder
from controller_manager.devcluster.scheme.readers import TypeMismatch, with_repeated
from tests.controllers.builders import deployment_json
from tests.devcluster.rows import rows

DEPLOYMENT = "io.k8s.api.apps.v1.Deployment"
DEFINITION = (
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
)
CORE = "io.k8s.api.core.v1."


def error_of(obj: JSON, model: str = DEPLOYMENT) -> str:
    with pytest.raises(TypeMismatch) as caught:
        Decoder().decode(obj, model)
    return str(caught.value)


def test_unknown_fields_are_named_and_empty_ones_dropped() -> None:
    """As Go would store the object; names differ by their case."""
    decoder = Decoder()
    obj = deployment_json(paused=False, minReadySeconds=0, bogus=1, Replicas=1)
    obj["spec"]["template"]["spec"]["containers"][0].update(
        {"env": [], "imagee": "x", "resources": {"limits": {"cpu": 1}}}
    )
    obj["metadata"]["labels"] = None
    checked = decoder.decode(obj, DEPLOYMENT)
    assert decoder.problems == [
        'unknown field "spec.template.spec.containers[0].imagee"',
        'unknown field "spec.bogus"',
        'unknown field "spec.Replicas"',
    ]
    (container,) = checked["spec"]["template"]["spec"]["containers"]
    assert container == {
        "name": "c",
        "image": "app:v1",
        "resources": {"limits": {"cpu": "1"}},
    }
    assert {"paused", "minReadySeconds"} & checked["spec"].keys() == set()
    assert "labels" not in checked["metadata"]


def test_a_zero_value_stays_where_it_differs_from_none() -> None:
    spec = {
        "replicas": 0,
        "minReadySeconds": 0,
        "template": {"spec": {"priority": 0, "nodeName": "", "hostname": None}},
        "strategy": {},
        "selector": {},
    }
    assert Decoder().decode({"spec": spec}, DEPLOYMENT) == {
        "spec": {
            "replicas": 0,
            "template": {"spec": {"priority": 0}},
            "strategy": {},
            "selector": {},
        }
    }


@rows("given", "found")
def test_a_value_is_written_again_as_go_does(given: JSON, found: JSON) -> None:
    assert Decoder().decode(given, f"{CORE}Container") == found


def test_times_are_written_again_in_utc() -> None:
    event = {
        "firstTimestamp": "2026-01-01T02:00:00.5+02:00",
        "eventTime": "2026-01-01T00:00:00.5Z",
    }
    assert Decoder().decode(event, f"{CORE}Event") == {
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "eventTime": "2026-01-01T00:00:00.500000Z",
    }


@rows("spec", "given", "field", "wanted")
def test_a_value_of_a_wrong_type_is_named_as_go_does(
    spec: JSON, given: str, field: str, wanted: str
) -> None:
    """With the struct, the path and the type that is wanted; the first of them."""
    assert error_of({"spec": spec}) == (
        f"json: cannot unmarshal {given} into Go struct field {field} of type {wanted}"
    )


def test_an_unreadable_text_ends_the_decoding() -> None:
    """It is reported, although a value before it has a wrong type."""
    metadata = {"generation": "1", "creationTimestamp": 5}
    assert error_of({"metadata": metadata}) == (
        "json: cannot unmarshal number into Go struct field "
        "ObjectMeta.metadata.creationTimestamp of type string"
    )
    limits = {"cpu": "many"}
    container = {"name": 1, "resources": {"limits": limits}}
    assert error_of(container, f"{CORE}Container").startswith(
        "quantities must match the regular expression"
    )
    secret = {"data": {"a": "???="}}
    assert error_of(secret, f"{CORE}Secret") == "illegal base64 data at input byte 0"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("garbage", 'as "{}": cannot parse "garbage" as "2006"'),
        ("2026-01-01", 'as "{}": cannot parse "" as "T"'),
        ("12:00", 'as "{}": cannot parse "12:00" as "2006"'),
        ("", 'as "{}": cannot parse "" as "2006"'),
        ("2026-01-01T00:00:00", 'as "{}": cannot parse "" as "Z07:00"'),
        ("2026-01-01T00:00:00Z.", ': extra text: "."'),
        ("2026-13-01T00:00:00Z", ": month out of range"),
        ("2026-02-30T00:00:00Z", ": day out of range"),
        ("2026-01-01T00:61:00Z", ": minute out of range"),
    ],
)
def test_a_text_that_is_no_time_is_named_as_go_does(text: str, problem: str) -> None:
    layout = "2006-01-02T15:04:05Z07:00"
    expected = f'parsing time "{text}"{" " * (problem[0] == "a")}{problem}'
    found = error_of({"lastTimestamp": text}, f"{CORE}Event")
    assert found == expected.format(layout)


def test_repeated_fields_are_named_where_go_knows_the_field() -> None:
    """The last value counts; an unknown field is named once."""
    body = b'{"spec": {"x": 1, "x": 2, "replicas": 1, "replicas": 2}, "metadata": '
    body += b'{"labels": {"a": "1", "a": "2"}, "annotations": {}}}'
    decoder = Decoder()
    last: Any = {"spec": {"replicas": 2}, "metadata": {"labels": {"a": "2"}}}
    assert decoder.decode(with_repeated(last, body), DEPLOYMENT) == last
    assert decoder.problems == [
        'unknown field "spec.x"',
        'duplicate field "spec.replicas"',
        'duplicate field "metadata.labels.a"',
    ]


def test_unknown_fields_of_a_schema_inside_another_are_not_named() -> None:
    """Go reads items with a decoder of their own, which ignores unknown fields."""
    inner = {"type": "string", "odd": 1}
    schema = {"odd": 1, "properties": {"a": {"odd": 1, "items": inner}}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    decoder = Decoder()
    found = decoder.decode({"spec": {"versions": [version]}}, DEFINITION)
    (kept,) = found["spec"]["versions"]
    assert kept["schema"]["openAPIV3Schema"] == {
        "properties": {"a": {"items": {"type": "string"}}}
    }
    path = "spec.versions[0].schema.openAPIV3Schema"
    assert decoder.problems == [
        f'unknown field "{path}.odd"',
        f'unknown field "{path}.properties.a.odd"',
    ]


def test_at_most_a_hundred_problems_are_named() -> None:
    decoder = Decoder()
    decoder.decode({f"field{number}": 1 for number in range(200)}, DEPLOYMENT)
    assert len(decoder.problems) == MOST_PROBLEMS
