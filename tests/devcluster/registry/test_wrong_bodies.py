"""No body makes the server fail: it reports the error."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds
from tests.clusters import Cluster
from tests.devcluster.registry.minimal import minimal
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

FILE = Path(__file__).parents[2] / "data" / "devcluster" / "rich-objects.yaml"
OBJECTS: dict[str, JSON] = yaml.load(FILE.read_text(), yaml.CSafeLoader)
VALUES: tuple[Any, ...] = (
    None,
    "",
    "x",
    "None",
    -1,
    0,
    1,
    70000,
    True,
    [],
    {},
    [{}],
    [None],
    "1/2",
    "é",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    found = [path] if path else []
    for key in keys:
        found += places(value[key], (*path, key))
    return found


def damaged(obj: JSON, rng: random.Random) -> JSON:
    """Return an object with one or two values removed or replaced."""
    result = copy.deepcopy(obj)
    for _ in range(rng.randint(1, 2)):
        path = rng.choice(places(result))
        parent: Any = result
        for key in path[:-1]:
            parent = parent[key]
        if rng.random() < 0.4:
            del parent[path[-1]]
        else:
            parent[path[-1]] = copy.deepcopy(rng.choice(VALUES))
        if not places(result):
            return result
    return result


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.split("/")[-1])
@pytest.mark.parametrize("seed", range(2))
async def test_a_wrong_body_is_refused_or_mended(
    cluster: Cluster, path: str, seed: int
) -> None:
    rng, accept = random.Random(seed), "application/json;as=Table;v=v1;g=meta.k8s.io"
    given = {"metadata": {"name": "a"}, **OBJECTS[path]}
    given["metadata"] = {"name": "a", **given["metadata"]}
    created = await call(cluster, "POST", path, given)
    assert created.status == 201, created.body
    name = given["metadata"]["name"]
    for number in range(150):
        body = damaged(given, rng)
        metadata = body.get("metadata")
        if isinstance(metadata, dict) and name == "a":
            metadata["name"] = f"b{number}"
        answers = [await call(cluster, "POST", path, body)]
        if isinstance(metadata, dict):
            metadata["name"] = name
        encoded = body
        answers += [
            await call(cluster, "PUT", where, encoded)
            for where in (f"{path}/{name}", f"{path}/{name}/status")
        ]
        answers.append(await call(cluster, "GET", path, accept=accept))
        for answer in answers:
            assert answer.status < 500, (body, answer.body)


@pytest.mark.parametrize(
    "kind",
    [each for each in find_kinds() if each.is_stored and "create" in each.verbs],
    ids=lambda kind: f"{kind.resource}-{kind.version}",
)
async def test_a_little_wrong_of_every_kind_is_refused_or_mended(
    cluster: Cluster, kind: Kind
) -> None:
    """Also of the least that an object must have."""
    rng, given = random.Random(5), minimal(kind)
    root = f"/apis/{kind.group}" if kind.group else "/api"
    scope = "/namespaces/default" if kind.namespaced else ""
    path = f"{root}/{kind.version}{scope}/{kind.plural}"
    created = await call(cluster, "POST", path, given)
    assert created.status == 201, created.body
    where = f"{path}/{given['metadata']['name']}"
    for _ in range(80):
        body = json.dumps(damaged(given, rng)).encode()
        for method, url in (("POST", path), ("PUT", where), ("PUT", f"{where}/status")):
            answer = await call(cluster, method, url, body)
            assert answer.status < 500, (body, answer.body)
