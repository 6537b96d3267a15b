"""The actions of the cron job controller, as values for its applier."""

from datetime import datetime

from msgspec import Struct

from controller_manager.api.batch.v1 import CronJobStatus
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.control.decision import Decision, Step
from controller_manager.runtime.outcome import Reason


class CronJobEvent(Struct, frozen=True):
    """An event about the cron job."""

    type: str
    reason: str
    message: str


def normal(reason: str, message: str) -> CronJobEvent:
    """Return an event about an observation or a write."""
    return CronJobEvent(NORMAL, reason, message)


def warning(reason: str, message: str) -> CronJobEvent:
    """Return an event about a problem."""
    return CronJobEvent(WARNING, reason, message)


class _AwaitsNothing(Struct, frozen=True):
    """An action whose result no other sync waits for."""

    @property
    def awaits(self) -> Reason | None:
        """Nothing."""
        return None


class RecordEvent(_AwaitsNothing, frozen=True):
    """Record an event without a write."""

    event: CronJobEvent


class ReadCronJob(_AwaitsNothing, frozen=True):
    """Read the cron job from the API server; the view then has it."""


class LookForActive(_AwaitsNothing, frozen=True):
    """Ask the API server for an active job that the cache does not show."""

    job: ObjectReference


class SearchRuns(_AwaitsNothing, frozen=True):
    """Ask the API server for the jobs of these names; the view then has them."""

    names: tuple[str, ...]


class DeleteJob(_AwaitsNothing, frozen=True):
    """Delete a job in the background; the view then has the result."""

    name: str
    uid: str


class CreateJob(_AwaitsNothing, frozen=True):
    """Create the job of a run; the view then has the result."""

    scheduled: datetime


Action = RecordEvent | ReadCronJob | LookForActive | SearchRuns | DeleteJob | CreateJob
CronJobStep = Step[Action]
CronJobDecision = Decision[Action, CronJobStatus]
