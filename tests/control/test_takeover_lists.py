"""Owners of one namespace share a list of its pods when this process takes over."""

import asyncio
from collections import Counter

import pytest

from controller_manager.api.core.v1 import PODS, Pod, PodMeta
from controller_manager.client.rest.transport import Request, Response
from controller_manager.control.expectations import StoredPods, TakeoverLists
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport
from tests.controllers.batch.job.builders import JobUser, job_config
from tests.controllers.builders import template
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


class Lists(RecordingTransport):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self.count = 0

    async def request(self, request: Request) -> Response:
        path = request.path
        is_list = request.method == "GET" and path.endswith("/pods")
        self.count += is_list and "/namespaces/" in path
        return await super().request(request)


@pytest.mark.parametrize("jobs", [20, 60])
async def test_a_namespaces_jobs_share_a_list(cluster: Cluster, jobs: int) -> None:
    user = JobUser(cluster)
    for number in range(jobs):
        await user.run(f"j{number}")
    transport = Lists(cluster)
    async with cluster.manager(job_config(), transport):
        await settle(30)
    made = Counter(
        (each.metadata.labels or {})["job-name"] for each in await user.pods()
    )
    assert made == {f"j{number}": 1 for number in range(jobs)}
    assert transport.count == 9


async def test_a_list_serves_a_minute_of_one_leadership(cluster: Cluster) -> None:
    """A later one may begin after writes of another leader."""
    user = User(cluster)
    lists = TakeoverLists(cluster.client)
    assert [await lists.shared("default") for _ in range(8)] == [None] * 8
    empty = await lists.shared("default")
    assert empty is not None
    assert (empty.uids, empty.newest) == (frozenset(), None)
    await user.create(PODS, {"metadata": {"name": "p"}, "spec": template()["spec"]})
    assert await lists.shared("default") is empty
    lists.start_leading()
    assert [await lists.shared("default") for _ in range(8)] == [None] * 8
    fresh = await lists.shared("default")
    (pod,) = await user.pods()
    assert fresh is not None
    assert (fresh.uids, fresh.newest) == (frozenset({pod.metadata.uid}), pod)
    await asyncio.sleep(61)
    assert await lists.shared("default") is None
    await asyncio.sleep(61)
    assert (lists._asked, lists._lists, lists._locks) == ({}, {}, {})


def test_a_pod_that_has_changed_since_the_list_is_not_gone() -> None:
    """Only a pod that is as old as the list, and that it does not have."""
    stored = StoredPods(frozenset({"a"}), 10)
    found = [
        stored.lacks(Pod(metadata=PodMeta(uid=uid, resource_version=version)))
        for uid, version in (("a", "5"), ("b", "5"), ("b", "10"), ("b", "11"))
    ]
    assert found == [False, True, True, False]
