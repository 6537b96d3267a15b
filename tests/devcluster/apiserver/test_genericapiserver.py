"""The server knows no kind but those that it is given."""

import ast
import json
from pathlib import Path

import pytest

from controller_manager.devcluster import apiserver
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds
from tests.clusters import Cluster
from tests.devcluster.requests import call

URL_GRAMMAR = {"namespaces"}
"""The part of a path that says in which namespace something is."""

FIELDS = {"secrets"}
"""A field that is called as some kind is: a service account's."""


def _texts(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_the_server_names_no_kind() -> None:
    """Neither by kind nor by plural; special behaviour stands in a strategy."""
    names = {
        name
        for kind in find_kinds()
        for name in (kind.kind, kind.plural, kind.resource, kind.type_name)
    }
    files = sorted(Path(next(iter(apiserver.__path__))).rglob("*.py"))
    assert len(files) > 20
    named = {
        (file.name, text)
        for file in files
        for text in _texts(file) & names - URL_GRAMMAR - FIELDS
    }
    assert named == set()


@pytest.mark.looptime
async def test_a_kind_without_a_strategy_works(cluster: Cluster) -> None:
    cluster.server.catalogue.add(Kind("example.com", "v1", "Widget", "widgets"))
    path = "/apis/example.com/v1/namespaces/default/widgets"
    body = b'{"metadata":{"name":"w"},"spec":{"any":{"thing":[1]}}}'
    assert (await call(cluster, "POST", path, body)).status == 201
    listed = json.loads((await call(cluster, "GET", path)).body)
    assert listed["kind"] == "WidgetList"
    assert listed["items"][0]["spec"] == {"any": {"thing": [1]}}
    resources = json.loads((await call(cluster, "GET", "/apis/example.com/v1")).body)
    assert [each["name"] for each in resources["resources"]] == ["widgets"]
