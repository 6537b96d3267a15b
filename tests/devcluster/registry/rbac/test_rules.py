"""Rules: their permissions, and the parts that other rules do not cover."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.security import Attributes
from controller_manager.devcluster.registry.rbac_authorizer import (
    compact,
    description,
    missing,
    permits,
)
from tests.devcluster.registry.rbac.requests import rule
from tests.devcluster.rows import rows


def paths(verbs: str, urls: str) -> JSON:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


GET_POD = Attributes("get", resource="pods", namespace="a", name="x")
GET_LOG = Attributes("get", resource="pods", subresource="log", namespace="a", name="x")
LIST = Attributes("list", group="apps", resource="deployments")


@pytest.mark.parametrize(
    ("given", "attributes", "expected"),
    [
        (rule("get", "pods"), GET_POD, True),
        (rule("*", "*", "*"), GET_POD, True),
        (rule("list", "pods"), GET_POD, False),
        (rule("get", "pods", "apps"), GET_POD, False),
        (rule("get", "pods"), GET_LOG, False),
        (rule("get", "pods/log"), GET_LOG, True),
        (rule("get", "*/log"), GET_LOG, True),
        (rule("get", "*/og"), GET_LOG, False),
        (rule("get", "pods/*"), GET_LOG, False),
        (rule("get", "*"), GET_LOG, True),
        (rule("get", "pods", resourceNames=["x", "y"]), GET_POD, True),
        (rule("get", "pods", resourceNames=["y"]), GET_POD, False),
        (rule("list", "deployments", "apps", resourceNames=["y"]), LIST, False),
        (rule("get", "*", "*"), Attributes("get", path="/metrics"), False),
        (paths("get", "*"), GET_POD, False),
        (paths("get", "/metrics"), Attributes("get", path="/metrics"), True),
        (paths("get", "/metrics"), Attributes("get", path="/metrics/x"), False),
        (paths("get", "/metrics/*"), Attributes("get", path="/metrics/x/y"), True),
        (paths("get", "/metrics*"), Attributes("get", path="/metrics"), True),
        (paths("post", "*"), Attributes("get", path="/metrics"), False),
    ],
)
def test_a_rule_permits_the_requests_that_it_names(
    given: JSON, attributes: Attributes, *, expected: bool
) -> None:
    assert permits(given, attributes) is expected


def test_a_rule_with_too_many_parts_is_covered_as_a_whole_or_not_at_all() -> None:
    """No role keeps the server busy: this one has a billion parts."""
    words = [f"x{number}" for number in range(1000)]
    huge = {"verbs": words, "apiGroups": words, "resources": words}
    assert missing([rule("*", "*", "*")], [huge]) == []
    assert missing([{**huge, "verbs": words[1:]}], [huge, rule("get", "pods")]) == [
        huge,
        rule("get", "pods"),
    ]
    assert missing([{**huge, "resourceNames": ["a"]}], [huge]) == [huge]


@rows("held", "wanted", "expected")
def test_parts_that_others_do_not_cover_are_missing(
    held: list[JSON], wanted: list[JSON], expected: list[str]
) -> None:
    assert [description(each) for each in compact(missing(held, wanted))] == expected
