"""A state that never becomes final is reported with the fields that return."""

import asyncio
import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response

from . import runner
from .fights import Fights
from .objects import Write, target_of
from .runner import play
from .users import User, Users
from .world import World

APPS = "/apis/apps/v1/namespaces/default"
PODS = "/api/v1/namespaces/default/pods"


def replica_set(replicas: int, *managers: JSON) -> JSON:
    metadata = {"name": "web", "namespace": "default", "managedFields": list(managers)}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


def patch(fights: Fights, writer: str, before: JSON, after: JSON) -> None:
    """Record a patch of a replica set."""
    request = Request("PATCH", f"{APPS}/replicasets/web")
    answer = Response(200, {}, json.dumps(after).encode())
    target = target_of(request.path)
    fights.record(Write(writer, target, request, answer, before, after))


def pod(fights: Fights, method: str, name: str) -> None:
    """Record the creation or the deletion of a pod with a generated name."""
    metadata = {"name": name, "namespace": "default", "generateName": "web-"}
    body: JSON = {"metadata": metadata}
    request = Request(method, PODS if method == "POST" else f"{PODS}/{name}")
    answer = Response(200, {}, json.dumps(body).encode())
    before = body if method == "DELETE" else None
    target = target_of(request.path)
    fights.record(Write("keeper", target, request, answer, before, None))


def test_two_controllers_that_disagree_are_named() -> None:
    """With the object, the field, both values, and how often it returned."""
    fights = Fights()
    for _ in range(4):
        patch(fights, "grower", replica_set(1), replica_set(2))
        patch(fights, "shrinker", replica_set(2), replica_set(1))
    assert list(fights.report()) == [
        (
            "replicasets default/web: spec.replicas returned 7 times: "
            "1 by another client and shrinker, 2 by grower"
        )
    ]


def test_a_review_has_no_name_and_is_recorded_by_its_kind() -> None:
    """The API server answers with a review that it does not store."""
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    request = Request("POST", path)
    answer = Response(201, {}, json.dumps({"metadata": {}}).encode())
    target = target_of(path)
    fights = Fights()
    fights.record(Write("approver", target, request, answer, None, None))
    assert list(fights.report()) == [
        f"no field returned; the last writes: POST {path} by approver"
    ]


def test_a_kubelet_is_named_as_the_object_names_it() -> None:
    """Another writer made the state that a controller sees before its write."""
    kubelet = {"manager": "kubelet", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    fights = Fights()
    for _ in range(2):
        patch(fights, "grower", replica_set(1, kubelet), replica_set(2, kubelet))
    assert list(fights.report()) == [
        (
            "replicasets default/web: spec.replicas returned 2 times: "
            "1 by kubelet, 2 by grower"
        )
    ]


def test_objects_with_made_names_are_told_as_one() -> None:
    """Pods that come and go have another name each time."""
    fights = Fights()
    for number in range(3):
        pod(fights, "POST", f"web-{number}")
        pod(fights, "DELETE", f"web-{number}")
    assert list(fights.report()) == [
        (
            "pods default/web-*: existence returned 4 times: "
            "created by keeper, deleted by keeper"
        )
    ]


def test_slow_progress_is_told_by_its_last_writes() -> None:
    """No field returns to a value that it had."""
    fights = Fights()
    for number in range(7):
        patch(fights, "grower", replica_set(number), replica_set(number + 1))
    write = f"PATCH {APPS}/replicasets/web by grower"
    assert list(fights.report()) == [
        f"no field returned; the last writes: {'; '.join([write] * 4)}"
    ]


@pytest.mark.slow
def test_a_fight_that_never_ends_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user scales replica sets, and their deployments scale them back."""

    async def scale_for_ever(world: World) -> None:
        while True:
            for each in world.stored("replicasets", "default"):
                world.change(
                    "replicasets", each, lambda obj: obj["spec"].update(replicas=9)
                )
            await asyncio.sleep(60)

    async def finish(users: Users) -> None:
        users.world._start_task(scale_for_ever(users.world))

    async def rest(*_: object) -> None:
        """Change nothing."""

    monkeypatch.setattr(runner, "PATIENCE", 300.0)
    monkeypatch.setattr(Users, "finish", finish)
    monkeypatch.setattr(User, "act", rest)
    monkeypatch.setattr(User, "try_all", rest)
    monkeypatch.setattr(runner, "meddle_with_all", rest)
    found = play(3, frozenset(), ("deployments",)).violations
    pods = (
        "existence returned 8 times: "
        "created by replicaset-controller, deleted by replicaset-controller"
    )
    scaled = "spec.replicas returned 10 times: 9 by another client"
    back = "by deployment-controller"
    assert [each[14:] for each in found] == [
        "the end: still writing after 300 s",
        f"the end: replicasets default/api-7749756756: {scaled}, 3 {back}",
        f"the end: replicasets default/web-6bdf798dd6: {scaled}, 1 {back}",
        f"the end: pods default/api-7749756756-*: {pods}",
        f"the end: pods default/web-6bdf798dd6-*: {pods}",
    ]
