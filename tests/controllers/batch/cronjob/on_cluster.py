"""Cron jobs on a cluster in memory, and jobs that a test ends."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Deletion
from tests.clusters import EPOCH, Cluster, RecordingTransport, make_config

CONFIG: Final = make_config(controllers=("cronjob",))
MINUTE_OF_EPOCH: Final = int(EPOCH.timestamp()) // 60
TEMPLATE: Final[JSON] = {
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "tick"}},
            "spec": {
                "containers": [{"name": "c", "image": "app:v1"}],
                "restartPolicy": "Never",
            },
        }
    }
}


def at(seconds: float) -> str:
    """Return the time that many seconds after the start of the cluster."""
    moment = EPOCH + timedelta(seconds=seconds)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_name(minutes: int, cron_job: str = "tick") -> str:
    """Return the name of the job for the run that many minutes after the start."""
    return f"{cron_job}-{MINUTE_OF_EPOCH + minutes}"


class Cron:
    """A cluster with a user of cron jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def create(
        self,
        name: str = "tick",
        schedule: str = "* * * * *",
        status: JSON | None = None,
        template: JSON | None = None,
        **spec: Any,
    ) -> str:
        """Create a cron job; return its uid."""
        body = {
            "schedule": schedule,
            "jobTemplate": TEMPLATE if template is None else template,
            **spec,
        }
        self.cluster.add("CronJob", name, "batch/v1", spec=body, status=status)
        return str(self.get("CronJob", name)["metadata"]["uid"])

    def add_job(
        self, name: str, owner: str, owner_name: str = "tick", *, scheduled: bool
    ) -> None:
        """Create a job that a cron job controls, of a run or made by hand."""
        annotations = (
            {"batch.kubernetes.io/cronjob-scheduled-timestamp": at(0)}
            if scheduled
            else {"cronjob.kubernetes.io/instantiate": "manual"}
        )
        reference = {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "name": owner_name,
            "uid": owner,
            "controller": True,
        }
        metadata = {
            "name": name,
            "annotations": annotations,
            "ownerReferences": [reference],
        }
        self.cluster.add("Job", name, "batch/v1", metadata=metadata, **TEMPLATE)

    def end_job(self, name: str, end: str = "Complete", started: float = 0.0) -> None:
        """Write the status of a job that has ended now."""
        now = self.cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        reasons = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": now}
            for each in (reasons[end], end)
        ]
        status: JSON = {"startTime": at(started), "conditions": conditions}
        if end == "Complete":
            status |= {"completionTime": now, "succeeded": 1}
        self.set_status("Job", name, status)

    def set_status(self, kind: str, name: str, status: JSON) -> None:
        """Merge into the status of an object."""
        found = self.cluster.server.catalogue.of("batch/v1", kind)
        assert found is not None
        body = self.get(kind, name)
        body = {**body, "status": {**body.get("status", {}), **status}}
        self.cluster.server.objects.update(found, "default", name, body, "status")

    def edit(self, name: str = "tick", **spec: Any) -> None:
        """Change the spec of a cron job."""
        found = self.cluster.server.catalogue.of("batch/v1", "CronJob")
        assert found is not None
        body = self.get("CronJob", name)
        body = {**body, "spec": {**body["spec"], **spec}}
        self.cluster.server.objects.update(found, "default", name, body)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        found = self.cluster.server.catalogue.of("batch/v1", kind)
        assert found is not None
        deletion = Deletion.parse({"propagationPolicy": "Background"}, {})
        self.cluster.server.objects.delete(found, "default", name, deletion)

    def get(self, kind: str, name: str) -> JSON:
        """Return an object as stored."""
        return next(each for each in self.all(kind) if each["metadata"]["name"] == name)

    def all(self, kind: str, api: str = "batch/v1") -> list[JSON]:
        """Return all objects of a kind as stored, by name."""
        found = self.cluster.server.catalogue.of(api, kind)
        assert found is not None
        stored = self.cluster.server.storage.collection(found.resource)
        objects: list[JSON] = json.loads(json.dumps([each.obj for each in stored]))
        return sorted(objects, key=lambda each: str(each["metadata"]["name"]))

    def jobs(self) -> list[str]:
        """Return the names of all jobs."""
        return [each["metadata"]["name"] for each in self.all("Job")]

    def active(self, name: str = "tick") -> list[str]:
        """Return the names of the jobs that a cron job lists as active."""
        status = self.get("CronJob", name).get("status", {})
        return [each["name"] for each in status.get("active", [])]

    def times(self, name: str = "tick") -> tuple[str | None, str | None]:
        """Return lastScheduleTime and lastSuccessfulTime."""
        status = self.get("CronJob", name).get("status", {})
        return status.get("lastScheduleTime"), status.get("lastSuccessfulTime")

    def events(self) -> list[str]:
        """Return the events about cron jobs: name, type, reason, message."""
        return sorted(
            f"{each['involvedObject']['name']} {each['type']} {each['reason']} "
            f"[{each['source']['component']}]: {each['message']}"
            for each in self.all("Event", "v1")
            if each["involvedObject"]["kind"] == "CronJob"
        )


def writes_of(recording: RecordingTransport) -> list[tuple[str, str, int]]:
    """Return method, path below the namespace and answer of each write."""
    prefix = "/apis/batch/v1/namespaces/default/"
    return [
        (each.method, each.path.removeprefix(prefix), each.status)
        for each in recording.writes
    ]


async def until_minute(minutes: float, extra: float = 1.0) -> None:
    """Sleep until a second after this number of minutes since the start."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(minutes * 60 + extra - now)


def moment(seconds: float) -> datetime:
    """Return the moment that many seconds after the start of the cluster."""
    return EPOCH + timedelta(seconds=seconds)


def without(status: Mapping[str, Any], *names: str) -> JSON:
    """Return a status without some fields."""
    return {name: value for name, value in status.items() if name not in names}
