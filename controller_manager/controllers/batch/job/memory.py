"""What the job controller remembers of a job between two syncs."""

from collections.abc import Iterable

from controller_manager.api.core.v1 import Pod
from controller_manager.control.expectations import Expectations, State
from controller_manager.control.takeover import Takeover
from controller_manager.controllers.batch.job.assessment import has_finalizer
from controller_manager.controllers.batch.job.back_off import BackOff
from controller_manager.controllers.batch.job.index_texts import IndexTexts
from controller_manager.runtime.context import ControllerContext


class Memory:
    """Expectations, back-offs and the like, by the keys of jobs.

    Nothing is remembered of a job that is finished or gone. A new process begins
    without a memory, and reads from the API server instead.
    """

    def __init__(self, context: ControllerContext, *, reads_own_writes: bool) -> None:
        """Take the context; start empty."""
        self.expectations = Expectations(context.clock)
        # A job must not run twice, so also a manager without an election looks at the
        # API server before it writes for a job that is older than this process.
        self.takeover = Takeover(context.server_clock, elected=True)
        self.indexes = IndexTexts()
        self._reads_own_writes = reads_own_writes
        self._back_offs: dict[str, BackOff] = {}
        self._released: dict[str, frozenset[str]] = {}

    def forget(self, key: str) -> None:
        """Forget a job that is gone or finished."""
        self.expectations.forget(key)
        self.takeover.forget(key)
        self.indexes.forget(key)
        self._back_offs.pop(key, None)
        self._released.pop(key, None)

    # Whether the number of pods may be changed.

    def expected(self, key: str) -> State:
        """Return what the expectations allow, when a sync begins."""
        if self._reads_own_writes:
            self.expectations.cache_caught_up(key)
        return self.expectations.state(key)

    def is_settled(self, key: str) -> bool:
        """Tell whether the cache shows all writes."""
        return self.expectations.state(key) is State.FULFILLED

    # What the cache and the API server do not know.

    def back_off(self, key: str) -> BackOff | None:
        """Return the back-off after the pods that were counted, `None` if not known."""
        return self._back_offs.get(key)

    def set_back_off(self, key: str, back_off: BackOff) -> None:
        """Replace the back-off."""
        self._back_offs[key] = back_off

    def add_released(self, key: str, uids: frozenset[str]) -> None:
        """Note pods whose finalizer was removed; the cache may still show it."""
        if uids:
            self._released[key] = self._released.get(key, frozenset()) | uids

    def still_shown(self, key: str, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the released pods that the cache still shows with the finalizer.

        The others are forgotten.
        """
        released = self._released.pop(key, frozenset())
        if released:
            tracked = {pod.metadata.uid for pod in pods if has_finalizer(pod)}
            self.add_released(key, released & tracked)
        return self._released.get(key, frozenset())
