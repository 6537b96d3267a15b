"""The resources of the API as data."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.registry import find_kinds
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme import models
from tests.devcluster.scheme.__main__ import main

RECORDED = Path(__file__).parents[2] / "data" / "discovery.json"
"""The APIResourceLists of a server with all versions."""


def test_the_file_has_all_that_a_server_lists() -> None:
    recorded = {
        each["groupVersion"]: {entry["name"]: entry for entry in each["resources"]}
        for each in json.loads(RECORDED.read_bytes())
    }
    held = {
        group_version: {
            name: json.loads(msgspec.json.encode(each))
            for name, each in entries.items()
        }
        for group_version, entries in models.built_in_resources().items()
    }
    assert held == recorded


def test_the_tool_writes_the_file_of_a_list(tmp_path: Path) -> None:
    entry = {
        "name": "trees",
        "singularName": "tree",
        "namespaced": True,
        "kind": "Tree",
        "verbs": ["get"],
    }
    lists = [{"groupVersion": "example.com/v1", "resources": [entry]}]
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"models": {}, "discovery": lists}))
    result = CliRunner().invoke(main, [str(table), f"--directory={tmp_path}"])
    assert result.exit_code == 0, result.output
    found = models.read_resources((tmp_path / models.RESOURCES).read_bytes())
    tree = models.Resource(
        name="trees", singular_name="tree", namespaced=True, kind="Tree", verbs=("get",)
    )
    assert found == {"example.com/v1": {"trees": tree}}


def test_a_resource_that_kubernetes_does_not_have_is_no_kind() -> None:
    with pytest.raises(KeyError, match="deploymnets"):
        kind_of("apps/v1/deploymnets", Strategy())


def test_two_kinds_with_one_name_have_two_models() -> None:
    models = {kind.type_name for kind in find_kinds() if kind.kind == "Event"}
    assert models == {"io.k8s.api.core.v1.Event", "io.k8s.api.events.v1.Event"}
