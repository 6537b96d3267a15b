"""A job survives refused writes of the API server."""

from collections.abc import Callable

import msgspec
import pytest

from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster
from tests.controllers.batch.job.user import JobUser, job_config
from tests.controllers.user import settle
from tests.informers.test_informer import Faulty

pytestmark = pytest.mark.looptime

Choice = Callable[[Request], bool]


def is_creation(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/pods")


def is_release(request: Request) -> bool:
    return request.method == "PATCH" and "/pods/" in request.path


def is_deletion(request: Request) -> bool:
    return request.method == "DELETE" and "/pods/" in request.path


def is_status(request: Request) -> bool:
    return request.method == "PUT" and request.path.endswith("/status")


def refusing(cluster: Cluster, chosen: Choice, code: int, reason: str) -> Faulty:
    """Return a transport that refuses the chosen requests until `accept`."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f"refused: {reason}",
    }
    answer = Response(code, {}, msgspec.json.encode(status))
    transport = Faulty(cluster)
    transport.refuse = lambda request: answer if chosen(request) else None
    return transport


def accept(transport: Faulty) -> None:
    transport.refuse = lambda _: None


async def test_an_index_that_failed_stays_failed_though_its_pod_succeeds_later(
    cluster: Cluster, user: JobUser
) -> None:
    """The pod was being deleted, and its finalizer could not be removed.

    Upstream then lists the index as succeeded and failed; the API server always refuses
    that.
    """
    transport = refusing(cluster, is_release, 500, "InternalError")
    async with cluster.manager(job_config(), transport=transport) as recording:
        await user.run(
            completions=2,
            parallelism=2,
            completionMode="Indexed",
            backoffLimitPerIndex=0,
        )
        await settle(5)
        first, second = await user.pods()
        await user.client.delete(PODS, "default", first.metadata.name)
        await settle(3)
        assert (await user.job()).status.failed_indexes == "0"
        await user.end(first, second)
        await settle(3)
        accept(transport)
        await settle(60)
        status = (await user.job()).status
        assert (status.completed_indexes, status.failed_indexes) == ("1", "0")
        assert (status.succeeded, status.failed) == (1, 1)
        assert await user.ends() == [
            ("FailureTarget", "FailedIndexes"),
            ("Failed", "FailedIndexes"),
        ]
        assert 422 not in [each.status for each in recording.writes]


async def test_a_quota_that_is_used_up_does_not_cause_many_requests(
    cluster: Cluster, user: JobUser
) -> None:
    """One creation is tried each time, at most once a minute in the long run."""
    transport = refusing(cluster, is_creation, 403, "Forbidden")
    async with cluster.manager(job_config(), transport=transport):
        await user.run(completions=50, parallelism=50)
        await settle(600)
        tried = len([each for each in transport.requests if is_creation(each)])
        assert 5 <= tried <= 20
        assert await user.events("FailedCreate") != []
        assert (await user.job()).status.active == 0
        accept(transport)
        await settle(70)
        assert (await user.job()).status.active == 50


@pytest.mark.parametrize("chosen", [is_deletion, is_release, is_status])
async def test_a_job_fails_as_soon_as_its_writes_are_accepted(
    cluster: Cluster, user: JobUser, chosen: Choice
) -> None:
    """It gets the condition Failed only after all its pods are counted."""
    transport = Faulty(cluster)
    async with cluster.manager(job_config(), transport=transport):
        await user.run(completions=3, parallelism=3, backoffLimit=0)
        await settle(5)
        refused = refusing(cluster, chosen, 500, "InternalError")
        transport.refuse = refused.refuse
        await user.end((await user.pods())[0], code=1)
        await settle(100)
        assert ("Failed", "BackoffLimitExceeded") not in await user.ends()
        accept(transport)
        await settle(70)
        status = (await user.job()).status
        assert (status.failed, status.active, status.terminating) == (3, 0, 0)
        assert await user.ends() == [
            ("FailureTarget", "BackoffLimitExceeded"),
            ("Failed", "BackoffLimitExceeded"),
        ]
        left = await user.pods()
        assert [each.metadata.finalizers for each in left] == [None]


async def test_the_pod_for_which_a_job_fails_stays_until_the_status_says_so(
    cluster: Cluster, user: JobUser
) -> None:
    """Meanwhile the other pods cannot be deleted, and a user deletes that pod.

    Upstream removes its finalizer first. The pod is gone then, and the job goes on.
    """
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [9]}}]
    async with cluster.manager(
        job_config(),
        transport=(transport := refusing(cluster, is_deletion, 500, "InternalError")),
    ):
        await user.run(completions=3, parallelism=2, podFailurePolicy={"rules": rules})
        await settle(5)
        fails, runs = await user.pods()
        await user.end(fails, code=9)
        await settle(5)
        await user.client.delete(PODS, "default", fails.metadata.name)
        await user.make_pods_ready([runs])
        await settle(60)
        assert await user.ends() == []
        accept(transport)
        await settle(70)
        assert await user.ends() == [
            ("FailureTarget", "PodFailurePolicy"),
            ("Failed", "PodFailurePolicy"),
        ]
        assert (await user.job()).status.failed == 2
        assert await user.pods() == []


async def test_conditions_of_others_are_kept(cluster: Cluster, user: JobUser) -> None:
    """Users may write the status, too; Go clients write times that are not set."""
    other = {
        "type": "Mine",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    async with cluster.manager(job_config()):
        await user.run(completions=1)
        await settle(5)
        patch = {"status": {"conditions": [other]}}
        await user.client.patch(JOBS, "default", "j", patch, subresource="status")
        await settle(5)
        await user.end(*await user.pods())
        await settle(5)
        assert [each for each, _ in await user.ends()] == [
            "Mine",
            "SuccessCriteriaMet",
            "Complete",
        ]
