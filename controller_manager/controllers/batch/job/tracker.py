"""The data of jobs that the controller keeps from one sync to the next."""

from collections.abc import Iterable

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import key_of
from controller_manager.control.expectations import Expectations, State
from controller_manager.control.takeover import Takeover
from controller_manager.runtime.context import ControllerContext

from .backoff import BackoffRecord
from .completion_indexes import IndexTexts
from .view import has_finalizer


class JobTracker:
    """Expectations, backoffs, released pods, parsed indexes and ends, by keys of jobs.

    Nothing is kept of a job that is finished or gone. A new process starts empty, and
    reads from the API server instead.
    """

    def __init__(self, context: ControllerContext, *, reads_own_writes: bool) -> None:
        """Take the context; start empty."""
        self.expectations = Expectations(context.clock)
        # A job must not run twice. So also a manager without an election reads from the
        # API server before it writes for a job that is older than this process.
        self.takeover = Takeover(context.server_clock, elected=True)
        self.indexes = IndexTexts()
        self._reads_own_writes = reads_own_writes
        self._backoffs: dict[str, BackoffRecord] = {}
        self._released: dict[str, frozenset[str]] = {}
        self._finished: dict[str, str] = {}
        """The uid of each job whose end was written, until the cache shows it."""

    def forget(self, key: str) -> None:
        """Forget a job that is gone or finished."""
        self.expectations.forget(key)
        self.takeover.forget(key)
        self.indexes.forget(key)
        self._backoffs.pop(key, None)
        self._released.pop(key, None)
        self._finished.pop(key, None)

    # Expectations.

    def expected(self, key: str) -> State:
        """Return the state of the expectations when a sync begins."""
        if self._reads_own_writes:
            self.expectations.cache_caught_up(key)
        return self.expectations.state(key)

    def is_settled(self, key: str) -> bool:
        """Tell whether the cache shows all writes."""
        return self.expectations.state(key) is State.FULFILLED

    # Data that neither the cache nor the API server has.

    def backoff(self, key: str) -> BackoffRecord | None:
        """Return the backoff after the counted pods, `None` if it is not known."""
        return self._backoffs.get(key)

    def set_backoff(self, key: str, backoff: BackoffRecord) -> None:
        """Replace the backoff."""
        self._backoffs[key] = backoff

    def add_released(self, key: str, uids: frozenset[str]) -> None:
        """Note pods whose finalizer was removed; the cache may still show it."""
        if uids:
            self._released[key] = self._released.get(key, frozenset()) | uids

    def still_shown(self, key: str, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the released pods that the cache still shows with the finalizer.

        The other pods are dropped.
        """
        released = self._released.pop(key, frozenset())
        if released:
            tracked = {pod.metadata.uid for pod in pods if has_finalizer(pod)}
            self.add_released(key, released & tracked)
        return self._released.get(key, frozenset())

    # Jobs whose end the cache does not show yet.

    def add_finished(self, job: Job) -> None:
        """Note that the end of a job was written."""
        self._finished[key_of(job)] = job.metadata.uid

    def has_finished(self, job: Job) -> bool:
        """Tell whether the end of a job was written (finishedJobExpectations).

        A cache that does not show it lacks the counted pods, too. Without the gate
        READS_OWN_WRITES, nothing else keeps the job from getting other pods.
        """
        return self._finished.get(key_of(job)) == job.metadata.uid
