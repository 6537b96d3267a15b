"""A sync that fails is retried with a backoff, and keeps its timer."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS, REPLICASETS, STATEFUL_SETS
from controller_manager.api.batch.v1 import CRON_JOBS, JOBS
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.options.config import Config
from tests.clusters import Cluster, make_config
from tests.controllers.builders import daemon_set_json, replica_set_json, template
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime

_REFUSAL: Final = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "message": "refused by a policy",
    "reason": "Forbidden",
    "code": 403,
}


class Refusing:
    """Refuses the requests that a function names."""

    host = "test"

    def __init__(self, cluster: Cluster, refuses: Callable[[Request], bool]) -> None:
        self._inner = cluster.transport
        self._refuses = refuses
        self.refused = 0

    async def request(self, request: Request) -> Response:
        if self._refuses(request):
            self.refused += 1
            return Response(403, {}, json.dumps(_REFUSAL).encode())
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def close(self) -> None:
        pass


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)


def creations_after(count: int) -> Callable[[Request], bool]:
    """Refuse the creations of pods after so many."""
    created = 0

    def refuses(request: Request) -> bool:
        nonlocal created
        if (request.method, request.path.endswith("/pods")) != ("POST", True):
            return False
        created += 1
        return created > count

    return refuses


def running(*controllers: str) -> Config:
    config = make_config()
    return replace(config, generic=replace(config.generic, controllers=controllers))


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
async def test_a_job_that_cannot_be_deleted_delays_no_run(
    cluster: Cluster, user: User, policy: str
) -> None:
    """Each run starts on time, though the old jobs stay."""

    def refuses(request: Request) -> bool:
        return request.method == "DELETE" and "/jobs/" in request.path

    transport = Refusing(cluster, refuses)
    config = running("cronjob-controller", "job-controller")
    spec = {
        "schedule": "* * * * *",
        "startingDeadlineSeconds": 20,
        "successfulJobsHistoryLimit": 1,
        "concurrencyPolicy": policy,
        "jobTemplate": {"spec": {"template": _of_job()}},
    }
    async with cluster.nodes(), cluster.manager(config, transport):
        await user.create(CRON_JOBS, {"metadata": {"name": "tick"}, "spec": spec})
        await settle(630)
        jobs = (await user.client.list_page(JOBS)).items
    created = sorted(each.metadata.creation_timestamp or "" for each in jobs)
    assert created == [f"2026-01-01T00:{minute:02}:00Z" for minute in range(1, 11)]
    # Each of the jobs that are too many is tried with a backoff, and after events.
    assert 0 < transport.refused < 40 * len(jobs)


@pytest.mark.parametrize(
    ("resource", "body", "controller"),
    [
        (REPLICASETS, replica_set_json("web", minReadySeconds=5), "replicaset"),
        (DAEMON_SETS, daemon_set_json("web", minReadySeconds=5), "daemonset"),
    ],
)
async def test_pods_become_available_in_time_though_another_is_refused(
    cluster: Cluster, user: User, resource: Any, body: JSON, controller: str
) -> None:
    """Not at the next retry, which comes up to two minutes later."""
    transport = Refusing(cluster, creations_after(2))
    config = running(f"{controller}-controller")
    async with cluster.nodes(count=3), cluster.manager(config, transport):
        await user.create(resource, body)
        await settle(4)
        assert await _available(user, resource) == 0
        await settle(4)
        assert await _available(user, resource) == 2


async def test_pods_become_available_in_time(cluster: Cluster, user: User) -> None:
    """The same for a stateful set, whose pods do not wait for each other."""
    body = replica_set_json("web", minReadySeconds=5, podManagementPolicy="Parallel")
    body |= {"kind": "StatefulSet"}
    body["spec"]["serviceName"] = "web"
    transport = Refusing(cluster, creations_after(2))
    config = running("statefulset-controller")
    async with cluster.nodes(count=3), cluster.manager(config, transport):
        await user.create(STATEFUL_SETS, body)
        await settle(4)
        assert await _available(user, STATEFUL_SETS) == 0
        await settle(4)
        assert await _available(user, STATEFUL_SETS) == 2


async def test_a_refused_job_has_its_deadline(cluster: Cluster, user: User) -> None:
    """Not at the next retry, which comes up to a minute later."""
    transport = Refusing(cluster, creations_after(0))
    spec = {"activeDeadlineSeconds": 70, "template": _of_job()}
    async with cluster.manager(running("job-controller"), transport):
        await user.create(JOBS, {"metadata": {"name": "j"}, "spec": spec})
        await settle(200)
        job = await user.client.get(JOBS, "default", "j")
    (failed,) = (each for each in job.status.conditions or () if each.type == "Failed")
    start = parse_time(job.status.start_time or "")
    ended = parse_time(failed.last_transition_time or "")
    assert failed.reason == "DeadlineExceeded"
    assert (ended - start).total_seconds() in (70, 71)


def _of_job() -> JSON:
    body = template()
    body["spec"]["restartPolicy"] = "Never"
    return body


async def _available(user: User, resource: Any) -> int:
    status = (await user.client.get(resource, "default", "web")).status
    number = getattr(status, "available_replicas", None)
    return int(status.number_available if number is None else number)
