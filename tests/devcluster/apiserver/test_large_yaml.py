"""Large YAML in requests and answers keeps the server from no other work."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.requests import call

MAPS = "/api/v1/namespaces/default/configmaps"
YAML = "application/yaml"


def config_map(name: str) -> JSON:
    data = {f"key-{number}": "a value" for number in range(5000)}
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_large_yaml_is_handled_in_a_thread(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the event loop goes on."""
    body = yaml.dump(config_map("web")).encode()
    threads = set()

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **options: object) -> object:
            threads.add(threading.current_thread())
            return function(*args, **options)

        return call

    for name in ("load", "parse", "dump"):
        monkeypatch.setattr(yaml, name, noted(getattr(yaml, name)))
    created = await call(cluster, "POST", MAPS, body, content_type=YAML)
    patch = "application/apply-patch+yaml"
    path = f"{MAPS}/web?fieldManager=me"
    applied = await call(cluster, "PATCH", path, body, content_type=patch)
    read = await call(cluster, "GET", f"{MAPS}/web", accept=YAML)
    monkeypatch.undo()
    assert threads
    assert threading.main_thread() not in threads
    assert [created.status, applied.status] == [201, 200]
    wanted = {**config_map("web"), "metadata": json.loads(applied.body)["metadata"]}
    assert yaml.safe_load(read.body) == json.loads(applied.body) == wanted


async def test_large_yaml_with_an_error_gets_the_answer_of_small_yaml(
    cluster: Cluster,
) -> None:
    wrong = b"metadata: {name: a}\ndata: ["
    large = wrong + b" " * 70_000
    answers = [
        await call(cluster, "POST", MAPS, body, content_type=YAML)
        for body in (wrong, large)
    ]
    assert answers[0].status == 400
    assert json.loads(answers[0].body) == json.loads(answers[1].body)
