"""The way of a request: the modules of the server that one create enters."""

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from controller_manager.client.rest.transport import Request
from controller_manager.devcluster import apiserver
from tests.clusters import TOKEN, Cluster

MOST = 16
TOUR = Path(__file__).parents[3] / "docs" / "tour.md"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
        },
    },
}


async def modules_of_a_create() -> list[str]:
    """Return the modules of the server that a create enters, in this order.

    It is the second request of ``kubectl create deployment`` on a server with roles:
    the first one also enters modules that load the types of the kind.
    """
    cluster = Cluster(rbac=True)
    assert (await cluster.server.handle(create("first"))).status == 201
    entered: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if event == "call" and name.startswith(f"{apiserver.__name__}."):
            entered.setdefault(name.removeprefix(f"{apiserver.__name__}."))

    earlier = sys.getprofile()
    sys.setprofile(note)
    try:
        answer = await cluster.server.handle(create("second"))
    finally:
        sys.setprofile(earlier)
    assert answer.status == 201
    return list(entered)


def create(name: str) -> Request:
    """Return the request of ``kubectl create deployment``."""
    deployment = {**DEPLOYMENT, "metadata": {"name": name, "labels": {"app": "web"}}}
    return Request(
        "POST",
        "/apis/apps/v1/namespaces/default/deployments",
        query=(("fieldManager", "kubectl-create"), ("fieldValidation", "Strict")),
        headers={
            "authorization": f"Bearer {TOKEN}",
            "accept": "application/json, */*",
            "content-type": "application/json",
            "user-agent": "kubectl/v1.36",
        },
        body=json.dumps(deployment).encode(),
    )


@pytest.mark.looptime
async def test_a_create_enters_at_most_16_modules_of_the_server() -> None:
    entered = await modules_of_a_create()
    assert entered[0] == "genericapiserver"
    assert "store" in entered
    assert len(entered) <= MOST, entered


@pytest.mark.looptime
async def test_the_tour_names_each_module_that_a_create_enters() -> None:
    walk = TOUR.read_text().partition("\n## kubectl create deployment")[2]
    paths = {
        f"server/{each.replace('.', '/')}.py" for each in await modules_of_a_create()
    }
    assert {each for each in paths if each not in walk} == set()
