"""The properties of the cron job controller."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from tests.controllers.batch.cronjob.workload import CronJobUsers
from tests.simulation.changes import only
from tests.simulation.objects import controller_of, path_of
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LIMITS: Final = {
    "Complete": "successfulJobsHistoryLimit",
    "Failed": "failedJobsHistoryLimit",
}


class CronJobProperties(Properties):
    """One job for a run, one run at a time for Forbid and Replace, limited history."""

    controller = "cronjob-controller"
    may_write = (
        AllowedWrite(("create", "delete"), "jobs"),
        AllowedWrite(("update",), "cronjobs/status", only(("status",))),
    )
    workload = CronJobUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check the jobs that the controller creates and deletes."""
        if write.controller != self.controller or write.target.resource != "jobs":
            return
        if write.verb == "create" and not write.is_late:
            yield from self._wrong_start(write.answered)
        if write.verb == "delete" and write.before is not None:
            yield from self._wrong_deletion(write.before)

    def broken_invariants(self) -> Iterator[str]:
        """No Forbid cron job ever has two runs at once."""
        for cron_job in self.state.stored("cronjobs"):
            running = self._running(cron_job)
            if _policy(cron_job) == "Forbid" and len(running) > 1:
                names = [each["metadata"]["name"] for each in running]
                yield f"{path_of(cron_job)}: runs {names} at once"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Yield each cron job with a wrong status or too many finished jobs."""
        del managers
        for cron_job in self.state.stored("cronjobs"):
            yield from self._wrong_status(cron_job)
            ends = Counter(_end(each) for each in self._jobs(cron_job))
            for end, limit in _LIMITS.items():
                if ends[end] > (most := cron_job["spec"][limit]):
                    yield f"{path_of(cron_job)}: {ends[end]} jobs {end}, not {most}"

    def end_state(self) -> JSON:
        """Return the cron jobs; how many runs there were depends on the faults.

        A manager whose watch lags may start a run after the users have suspended the
        cron job. No user ends that job, so the active jobs depend on the faults, too.
        """
        return {
            path_of(each): {"spec": each["spec"]}
            for each in self.state.stored("cronjobs")
        }

    def _wrong_start(self, job: JSON) -> Iterator[str]:
        cron_job = self._owner(job)
        if cron_job is None:
            return
        name = path_of(job)
        last = cron_job.get("status", {}).get("lastScheduleTime")
        time = job["metadata"]["annotations"][_SCHEDULED]
        if last is not None and parse_time(time) <= parse_time(last):
            yield f"{name}: created for {time}, though {last} was the last run"
        others = [
            each["metadata"]["name"]
            for each in self._running(cron_job)
            if each["metadata"]["uid"] != job["metadata"]["uid"]
        ]
        if _policy(cron_job) == "Forbid" and others:
            yield f"{name}: created while {others} run"

    def _wrong_deletion(self, job: JSON) -> Iterator[str]:
        cron_job = self._owner(job)
        if cron_job is None or _end(job) or "deletionTimestamp" in job["metadata"]:
            return
        if _policy(cron_job) != "Replace":
            yield f"{path_of(job)}: deleted while it runs"

    def _wrong_status(self, cron_job: JSON) -> Iterator[str]:
        status = cron_job.get("status", {})
        listed = sorted(each["uid"] for each in status.get("active", []))
        running = sorted(each["metadata"]["uid"] for each in self._running(cron_job))
        if listed != running:
            yield f"{path_of(cron_job)}: lists {listed}, but {running} run"
        completed = [
            parse_time(each["status"]["completionTime"])
            for each in self._jobs(cron_job)
            if _end(each) == "Complete"
        ]
        last = status.get("lastSuccessfulTime")
        if completed and (last is None or parse_time(last) < max(completed)):
            yield f"{path_of(cron_job)}: {last} is not the last success"

    def _owner(self, job: JSON) -> JSON | None:
        """Return the cron job that controls a job, `None` if it is gone."""
        for cron_job in self.state.stored("cronjobs", job["metadata"]["namespace"]):
            if cron_job["metadata"]["uid"] == controller_of(job):
                return cron_job
        return None

    def _jobs(self, cron_job: JSON) -> list[JSON]:
        """Return the jobs that a cron job controls and that are not being deleted."""
        return [
            each
            for each in self.state.stored("jobs", cron_job["metadata"]["namespace"])
            if controller_of(each) == cron_job["metadata"]["uid"]
            and "deletionTimestamp" not in each["metadata"]
        ]

    def _running(self, cron_job: JSON) -> list[JSON]:
        """Return the jobs of runs that have not ended."""
        return [
            each
            for each in self._jobs(cron_job)
            if not _end(each) and _SCHEDULED in each["metadata"].get("annotations", {})
        ]


def _policy(cron_job: JSON) -> str:
    return str(cron_job["spec"]["concurrencyPolicy"])


def _end(job: JSON) -> str:
    """Return the end of a job, empty if it has not ended."""
    for each in job.get("status", {}).get("conditions", []):
        if each["type"] in _LIMITS and each["status"] == "True":
            return str(each["type"])
    return ""


PROPERTIES = CronJobProperties
