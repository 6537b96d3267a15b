"""Jobs are deleted on a cluster in memory, on virtual time."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.controllers.batch.ttlafterfinished.controller import expires_at
from controller_manager.runtime.outcome import SyncError
from tests.clusters import Cluster, make_config
from tests.controllers.builders import completed_job_status

CONTAINERS = {"containers": [{"name": "c", "image": "app:v1"}]}


@pytest.mark.looptime
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


SINCE = "2026-01-01T00:00:00Z"


def job(**parts: Any) -> Job:
    spec = {"ttlSecondsAfterFinished": parts.get("ttl", 10)}
    conditions = parts.get("conditions", [])
    metadata = {"name": "j", "namespace": "default", **parts.get("metadata", {})}
    body = {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(body, Job)


def condition(kind: str, status: str = "True", since: str | None = SINCE) -> JSON:
    return {"type": kind, "status": status, "lastTransitionTime": since}


@pytest.mark.parametrize(
    ("subject", "when"),
    [
        (
            job(conditions=[condition("Complete")]),
            datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC),
        ),
        (
            job(conditions=[condition("Failed")], ttl=0),
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
        (job(conditions=[condition("Complete", "False")]), None),
        (job(conditions=[condition("Suspended")]), None),
        (job(conditions=[condition("Complete")], ttl=None), None),
        (
            job(
                conditions=[condition("Complete")],
                metadata={"deletionTimestamp": SINCE},
            ),
            None,
        ),
    ],
)
def test_a_job_expires_after_its_end(subject: Job, when: datetime | None) -> None:
    assert expires_at(subject) == when


def test_a_job_without_a_finish_time_cannot_expire() -> None:
    subject = job(conditions=[condition("Complete", since=None)])
    with pytest.raises(SyncError, match="find the time when the Job default/j"):
        expires_at(subject)
