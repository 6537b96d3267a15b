"""Jobs are deleted on a cluster in memory, on virtual time."""

import asyncio

import pytest

from controller_manager.api.batch.v1 import JOBS
from controller_manager.client.rest.client import PatchType
from tests.clusters import Cluster, make_config
from tests.controllers.builders import completed_job_status

pytestmark = pytest.mark.looptime

CONTAINERS = {"containers": [{"name": "c", "image": "app:v1"}]}


async def test_a_job_whose_ttl_is_raised_is_kept(cluster: Cluster) -> None:
    """The stored TTL counts, even if the cache does not show it yet."""
    template = {"spec": {**CONTAINERS, "restartPolicy": "Never"}}
    spec = {"ttlSecondsAfterFinished": 10, "template": template}
    status = completed_job_status()
    cluster.add("Job", "j", "batch/v1", spec=spec, status=status)
    async with cluster.manager(make_config(controllers=("ttl-after-finished",))):
        await asyncio.sleep(5)
        patch = {"spec": {"ttlSecondsAfterFinished": 100}}
        await cluster.client.patch(JOBS, "default", "j", patch, PatchType.MERGE)
        await asyncio.sleep(50)
        assert (await cluster.client.get(JOBS, "default", "j")).metadata.name == "j"
        await asyncio.sleep(60)
        metadata = (await cluster.client.get(JOBS, "default", "j")).metadata
        assert metadata.deletion_timestamp is not None
        assert metadata.finalizers == ("foregroundDeletion",)
