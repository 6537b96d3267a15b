"""Values are merged, compared and checked by their types."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.field_set import compare, fields_of
from controller_manager.devcluster.apiserver.field_type import faults_of, type_of_model
from controller_manager.devcluster.apiserver.merging import merged, without
from tests.devcluster.rows import rows

SPEC = type_of_model("io.k8s.api.core.v1.PodSpec")
SERVICE = type_of_model("io.k8s.api.core.v1.ServiceSpec")


def named(*names: str) -> list[JSON]:
    return [{"name": each} for each in names]


@pytest.mark.parametrize(
    ("current", "config", "result"),
    [
        ("abc", "b", "abc"),
        ("abc", "d", "abcd"),
        ("abc", "ca", "bca"),
        ("abc", "dcb", "adcb"),
        ("abc", "dbea", "dbcea"),
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("abcd", "cxa", "bcdxa"),
    ],
)
def test_items_are_in_the_order_of_the_configuration(
    current: str, config: str, result: str
) -> None:
    found = merged({"volumes": named(*current)}, {"volumes": named(*config)}, SPEC)
    assert "".join(each["name"] for each in found["volumes"]) == result


@pytest.mark.parametrize(
    ("current", "config", "result"),
    [
        ({"nodeName": "a"}, {"hostname": "b"}, {"nodeName": "a", "hostname": "b"}),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": "2"}}, None),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, None),
        (
            {"containers": [{"name": "c", "image": "i", "args": ["1"]}]},
            {"containers": [{"name": "c", "args": ["2"]}]},
            {"containers": [{"name": "c", "image": "i", "args": ["2"]}]},
        ),
        ({"securityContext": {"runAsUser": 1}}, {"securityContext": None}, None),
    ],
)
def test_atomic_values_are_replaced(
    current: JSON, config: JSON, result: JSON | None
) -> None:
    """All else is merged; `None` stands for the configuration itself."""
    assert merged(current, config, SPEC) == (config if result is None else result)


def test_ports_have_the_protocol_as_a_key_with_a_default() -> None:
    """So one port may be there twice."""
    ports = [{"port": 53}, {"port": 53, "protocol": "UDP"}]
    fields = fields_of({"ports": ports, "selector": {"a": "b"}}, SERVICE)
    assert fields == {
        "f:ports": {
            'k:{"port":53,"protocol":"TCP"}': {".": {}, "f:port": {}},
            'k:{"port":53,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
        },
        "f:selector": {},
    }


def test_a_comparison_finds_removed_new_and_changed_fields() -> None:
    """A new map belongs to it with all that it has; a struct was always there."""
    old = {"nodeName": "a", "containers": [{"name": "c", "image": "i"}], "volumes": []}
    new = {
        "nodeName": "b",
        "containers": [{"name": "d"}],
        "securityContext": {"sysctls": []},
    }
    found = compare(old, new, SPEC)
    assert found.modified == {"f:nodeName": {}}
    assert found.removed == {
        "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}},
        "f:volumes": {},
    }
    assert found.added == {
        "f:containers": {'k:{"name":"d"}': {".": {}, "f:name": {}}},
        "f:securityContext": {".": {}, "f:sysctls": {}},
    }


def test_items_with_one_key_are_compared_as_one() -> None:
    one, two = {"name": "a", "value": "1"}, {"name": "a", "value": "2"}
    container = type_of_model("io.k8s.api.core.v1.Container")
    item = 'k:{"name":"a"}'
    whole: JSON = {item: {".": {}, "f:name": {}, "f:value": {}}}

    def changes(old: list[JSON], new: list[JSON]) -> list[JSON]:
        found = compare({"env": old}, {"env": new}, container)
        return [each.get("f:env", {}) for each in found]

    assert changes([one, two], [two, one]) == [{}, {item: {}}, {}]
    assert changes([one, two], [one]) == [{item: {}}, {}, whole]
    assert changes([one], [one, two]) == [whole, {}, {item: {}}]
    assert fields_of({"env": [one, two]}, container) == {"f:env": {item: {}}}


def test_fields_are_taken_out() -> None:
    """A map that loses everything goes, an item goes with its own path."""
    obj = {
        "nodeName": "a",
        "containers": [{"name": "c", "image": "i"}, {"name": "d"}],
        "securityContext": {"runAsUser": 1},
    }
    fields = {
        "f:containers": {'k:{"name":"c"}': {"f:image": {}}, 'k:{"name":"d"}': {}},
        "f:securityContext": {"f:runAsUser": {}},
    }
    assert without(obj, fields, SPEC) == {
        "nodeName": "a",
        "containers": [{"name": "c"}],
    }


@rows("config", "message")
def test_a_configuration_is_checked(config: JSON, message: str) -> None:
    assert faults_of(config, SPEC) == message
