"""The data of cron jobs that the controller keeps from one sync to the next."""

from controller_manager.api.batch.v1 import CronJob, Job
from controller_manager.api.meta import key_of
from controller_manager.control.takeover import Takeover
from controller_manager.informers.lister import Lister


class CronJobTracker:
    """Deleted jobs that the cache still shows, and the search after a takeover."""

    def __init__(self, jobs: Lister[Job], takeover: Takeover) -> None:
        """Take the cache of jobs; start empty."""
        self.takeover = takeover
        self._jobs = jobs
        self._deletions = Deletions()

    def shown_jobs(self, cron_job: CronJob) -> list[Job]:
        """Return the cached jobs of a cron job without deleted ones, sorted."""
        key = key_of(cron_job)
        jobs = (
            job
            for job in self._jobs.controlled_by(cron_job)
            if not self._deletions.has(key, job.metadata.uid)
        )
        return sorted(jobs, key=key_of)

    def note_deletion(self, cron_job: CronJob, name: str, uid: str) -> None:
        """Leave out a job that is about to be deleted, while the cache shows it."""
        cached = self._jobs.get(cron_job.metadata.namespace, name)
        if cached is not None and cached.metadata.uid == uid:
            self._deletions.note(key_of(cron_job), uid)

    def note_failure(self, cron_job: CronJob, uid: str) -> None:
        """Take a job whose deletion failed into account again."""
        self._deletions.seen(key_of(cron_job), uid)

    def note_gone(self, key: str, uid: str) -> None:
        """Note that the cache shows the deletion of a job of the cron job `key`."""
        self._deletions.seen(key, uid)

    def note_search(self, cron_job: CronJob) -> None:
        """Note that the jobs of a former leader were looked for."""
        self.takeover.rechecked(key_of(cron_job))

    def forget(self, key: str) -> None:
        """Drop the data of a cron job that is gone."""
        self._deletions.forget(key)
        self.takeover.forget(key)


class Deletions:
    """The uids of deleted jobs, until the watch shows the deletion.

    Without them, a job that was just deleted would look like a job that is not listed.
    """

    def __init__(self) -> None:
        self._uids: dict[str, set[str]] = {}

    def __len__(self) -> int:
        """Return the number of cron jobs with deleted jobs in the cache."""
        return len(self._uids)

    def note(self, key: str, uid: str) -> None:
        """Note the deletion of a job of the cron job `key`."""
        self._uids.setdefault(key, set()).add(uid)

    def seen(self, key: str, uid: str) -> None:
        """Note that the cache shows a deletion, or that the deletion has failed."""
        uids = self._uids.get(key, set())
        uids.discard(uid)
        if not uids:
            self._uids.pop(key, None)

    def has(self, key: str, uid: str) -> bool:
        """Tell whether a job was deleted, and the cache still shows it."""
        return uid in self._uids.get(key, ())

    def forget(self, key: str) -> None:
        """Drop the jobs of a cron job that is gone."""
        self._uids.pop(key, None)
