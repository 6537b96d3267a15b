"""The worker loop of all controllers, its turns, and its restarts after defects.

A reconcile that has nothing to change never awaits. A worker with 4,000 such keys in
its queue would block the loop for 0.4 s: all other controllers would wait. So all
workers of a process share one budget of time for each turn of the loop; the remaining
keys are processed in later turns.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextvars import Context, copy_context
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from controller_manager.api.meta import group_of_key
from controller_manager.client.rest import errors
from controller_manager.client.rest.limits import ON_WAIT, PLACES, SYNC_KEY
from controller_manager.clock import Clock
from controller_manager.observability.defects import Defects, count_nowhere
from controller_manager.observability.logs import SYNC_FIELDS, Logger
from controller_manager.workqueue.queue import ShutDown, WorkQueue

from .outcome import (
    Done,
    Failed,
    KeyReport,
    Outcome,
    Requeue,
    SyncError,
    SyncRecords,
    failure_outcome,
)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts; each pause is twice as long as the one before."""


async def until_done(
    work: Callable[[], Awaitable[None]],
    failed: Callable[[Exception], None],
    stop: asyncio.Event,
    fatal: tuple[type[Exception], ...] = (),
) -> None:
    """Do `work` until it returns, or until it fails once `stop` is set.

    `failed` is called with each exception. A task of a task group that raised it would
    end all other tasks, and so all controllers. Exceptions of the types `fatal` are
    raised.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            await work()
        except fatal:
            raise
        except Exception as error:  # noqa: BLE001 - the caller logs and counts it
            failed(error)
        else:
            return
        try:
            async with asyncio.timeout(pause):
                await stop.wait()
        except TimeoutError:
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return


async def done_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Await `work` until it is done or `stop` is set; tell whether it was done.

    Work that is not done when `stop` is set is cancelled. Raises what `work` raises.
    """
    tasks = (asyncio.create_task(work), asyncio.create_task(stop.wait()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if tasks[0].cancelled():
        return False
    tasks[0].result()
    return not stop.is_set()


BUDGET: Final = 0.005
"""Seconds of one turn of the event loop that workers may use together.

Half of the 10 ms that a turn may take: watches need time, too.
"""


class Turns:
    """Shares the turns of one event loop among all workers of a process.

    A turn is over budget once `BUDGET` has passed since the first worker began in
    it. A worker that calls `wait` then waits for a later turn. Workers that have not
    worked in this turn go first in the next one, so every worker gets its turn.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        on_turn: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Take a clock that measures work, in seconds.

        `on_turn` is called after each turn in which workers worked, with the seconds
        from the start of the first worker until the next turn.
        """
        self._clock = clock
        self._on_turn = on_turn
        self._number = 0
        self._began: float | None = None
        self._next: deque[asyncio.Future[None]] = deque()
        self._after: deque[asyncio.Future[None]] = deque()

    async def wait(self, last: int) -> int:
        """Wait until there is time left in a turn; return the turn's number.

        `last` is the number of the turn in which the caller worked last, 0 for
        none.
        """
        while not self._has_time():
            waiters = self._after if last == self._number else self._next
            future = asyncio.get_running_loop().create_future()
            waiters.append(future)
            await future
        return self._number

    def _has_time(self) -> bool:
        now = self._clock()
        if self._began is None:
            self._began = now
            self._number += 1
            asyncio.get_running_loop().call_soon(self._end)
            return True
        return now - self._began < BUDGET

    def _end(self) -> None:
        """End the turn: the loop calls this at the beginning of the next one."""
        if self._began is not None:
            self._on_turn(self._clock() - self._began)
        self._began = None
        waiters = (*self._next, *self._after)
        self._next.clear()
        self._after.clear()
        for future in waiters:
            if not future.done():
                future.set_result(None)


_EXPECTED_ERRORS: Final = (
    errors.APIError,
    errors.ProtocolError,
    SyncError,
    errors.TransportError,
)

Pieces = Generator[bytes, None, None]
"""A text, piece by piece."""

DebugPage = Callable[[Mapping[str, Sequence[str]]], tuple[str, Pieces]]
"""Returns a media type and the page in pieces; the argument is the URL's query.

Other tasks run between two pieces, so each piece must take little time.
"""

Reconcile = Callable[[str], Awaitable[Outcome]]


class SyncMetrics(Protocol):
    """Hooks that the loop calls, pre-created for every outcome."""

    def observe(self, outcome: str, seconds: float) -> None:
        """Observe one sync; `outcome` is success, requeue, refused or error."""


@dataclass(eq=False)
class Workers:
    """N workers of one controller over one queue.

    A worker waits for its turn, takes a key, awaits `reconcile` and maps the outcome
    to the queue: `Done` forgets the key's failures (and adds the key again after a
    delay, if asked), `Requeue` adds it again after a delay, `Failed` and an exception
    add it rate-limited, and `Failed` keeps the time of the next sync. A key is never
    dropped: upstream drops a deployment after 15 failures, and it then stays stuck
    until it changes or the resync comes, 12 hours later.

    A sync whose request has waited for the API server for longer than a second gives
    its place to keys of other namespaces (`gives_way`). Until it ends, one more worker
    runs, up to `PLACES` times `count` of them in all. So a slow webhook of one
    namespace, which keeps all of upstream's workers, stops nothing elsewhere. Keys of
    its own namespace have no more than `count` workers, as ever.

    `on_start` is iterated over once, when the queue has just been opened; other tasks
    run between two steps. The workers start once `ready` returns, and immediately
    without it; the queue collects keys meanwhile. If one of them raises an exception,
    it is called again. `count_defect` counts such exceptions by the controller's name.
    Without `gives_way` there are never more than `count` workers, for a reconcile that
    relies on that.

    Every log line written during a sync carries controller, key and a
    reconcile id.
    """

    name: str
    queue: WorkQueue
    reconcile: Reconcile
    count: int
    _: KW_ONLY
    clock: Clock
    rng: random.Random
    logger: Logger
    metrics: SyncMetrics
    turns: Turns
    on_start: Callable[[], Iterable[None]] = tuple
    ready: Callable[[], Coroutine[Any, Any, None]] | None = None
    count_defect: Callable[[str], None] = count_nowhere
    gives_way: bool = True
    debug: Mapping[str, DebugPage] = field(default_factory=dict)
    """Pages by name, served below ``/debug/controllers/NAME``."""
    _alive: int = field(init=False, default=0)
    _started: bool = field(init=False, default=False)
    _in_process: set[str] = field(init=False, default_factory=set)
    _slow: dict[str, str] = field(init=False, default_factory=dict)
    """The keys whose syncs have given their place away, and their namespaces."""
    _stop: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Start no worker: none is needed before `run`."""
        self._defects = Defects(self.logger, self.count_defect)
        self._most = self.count * PLACES if self.gives_way else self.count
        self._start_worker: Callable[[], None] = lambda: None
        self._records = SyncRecords(self.clock)

    @property
    def is_healthy(self) -> bool:
        """True if all workers are running, or have not started yet."""
        return not self._started or self._alive >= self.count

    @property
    def is_idle(self) -> bool:
        """True if no key waits or is being processed; delayed keys do not count."""
        return self.queue.is_idle

    def report_running(self) -> None:
        """Update the metrics of work in progress."""
        self.queue.report_running()

    def key_reports(self, key: str) -> list[KeyReport]:
        """Return the report about a key; one that is not known is idle."""
        queue = self.queue
        return [KeyReport(queue.name, queue.state(key), self._records.of(key))]

    async def run(self) -> None:
        """Run the workers until the queue is shut down and no key is in process."""
        self.queue.open()
        async with asyncio.TaskGroup() as group:
            beginning = until_done(self._begin, self._report, self._stop)
            group.create_task(beginning, name=f"{self.name}-begin")
            if not await self._may_start():
                return
            self._started = True
            context = copy_context()
            self._start_worker = partial(self._start, group, context)
            for _ in range(self.count):
                self._start_worker()

    def _start(self, group: asyncio.TaskGroup, context: Context) -> None:
        """Start a worker, in a context that is not that of a sync."""
        name, work = f"{self.name}-worker-{self._alive}", self._work()
        try:
            group.create_task(work, name=name, context=context.copy())
        except RuntimeError:
            work.close()  # the workers were cancelled, and some syncs end slowly
            return
        self._alive += 1

    def stop(self) -> None:
        """Drop the keys that wait; `run` ends once the syncs in progress end."""
        self._stop.set()
        self.queue.shut_down()

    async def _begin(self) -> None:
        turn = 0
        for _ in self.on_start():
            if self._stop.is_set():
                return
            turn = await self.turns.wait(turn)

    async def _may_start(self) -> bool:
        """Wait until the workers may start; return False if stopped before."""
        if self.ready is None:
            return True
        waiting = until_done(self.ready, self._report, self._stop)
        return await done_before(self._stop, waiting)

    def _report(self, error: Exception) -> None:
        self._defects.report(self.name, error)

    async def _work(self) -> None:
        turn = 0
        try:
            while self._alive <= self.count + len(self._slow):
                await self.queue.wait()
                turn = await self.turns.wait(turn)
                key = self.queue.take(self._barred())
                if key is None:
                    continue  # another worker was faster, or the key has to wait
                self._in_process.add(key)
                try:
                    await self._process(key)
                except Exception as error:  # noqa: BLE001 - it must end no worker
                    self._report(error)
                    self.queue.add_rate_limited(key)
                finally:
                    self._in_process.discard(key)
                    self._slow.pop(key, None)
                    self.queue.done(key)
        except ShutDown:
            return
        finally:
            self._alive -= 1

    def _barred(self) -> Collection[str]:
        """Return the slow namespaces that have as many workers as the flag says.

        One with fewer may have any place, or a single slow key would keep the others of
        its namespace waiting while other namespaces are busy.
        """
        if not self._slow:
            return ()
        used = Counter(map(group_of_key, self._in_process))
        return {each for each in self._slow.values() if used[each] >= self.count}

    def _give_place(self, key: str) -> None:
        """Let a worker of other namespaces go on in place of a sync that waits."""
        if key not in self._in_process or self._stop.is_set():
            return  # the sync has ended
        self._slow[key] = group_of_key(key)
        if self._alive < min(self._most, self.count + len(self._slow)):
            self._start_worker()

    async def _process(self, key: str) -> None:
        reconcile_id = f"{self.rng.getrandbits(32):08x}"
        fields = {"controller": self.name, "key": key, "reconcile_id": reconcile_id}
        started = self.clock.monotonic()
        of_log, of_key = SYNC_FIELDS.set(fields), SYNC_KEY.set(key)
        of_wait = ON_WAIT.set(partial(self._give_place, key))
        try:
            try:
                outcome = await self.reconcile(key)
            finally:
                ON_WAIT.reset(of_wait)
                SYNC_KEY.reset(of_key)
        except Exception as error:  # noqa: BLE001 - a failed sync must not end it
            self._ended(key, Failed(error), self.clock.monotonic() - started)
        else:
            self._ended(key, outcome, self.clock.monotonic() - started)
        finally:
            SYNC_FIELDS.reset(of_log)

    def _ended(self, key: str, outcome: Outcome, seconds: float) -> None:
        if isinstance(outcome, Failed):
            outcome = Failed(errors.behind(outcome.error), outcome.requeue_after)
        self._records.ended(key, outcome, seconds)
        match outcome:
            case Failed():
                self._failed(key, outcome, seconds)
            case Done(requeue_after=after):
                self.queue.forget(key)
                if after is not None:
                    self.queue.add_after(key, after)
                self.metrics.observe("success", seconds)
                self.logger.v(4).info("Finished syncing", duration=seconds)
            case Requeue(requeue_after=delay, reason=reason):
                self.queue.add_after(key, delay)
                self.metrics.observe("requeue", seconds)
                self.logger.v(4).info("Sync requeued", reason=reason)

    def _failed(self, key: str, outcome: Failed, seconds: float) -> None:
        error, after = outcome.error, outcome.requeue_after
        self.queue.add_rate_limited(key)
        if after is not None and after > 0:
            # A time that has passed is a matter of the backoff.
            self.queue.add_after(key, after)
        kind = failure_outcome(error)
        self.metrics.observe(kind, seconds)
        retries = self.queue.failures(key)
        if errors.is_conflict(error) or errors.is_namespace_terminating(error):
            # Expected under concurrency; the retry reads fresher state.
            self.logger.v(2).info("Sync to be retried", err=str(error))
        elif kind == "refused":
            # The owner of the object has to act, and not the operator.
            self.logger.warning("Sync refused", err=str(error), retries=retries)
        elif isinstance(error, _EXPECTED_ERRORS):
            self.logger.error("Sync failed", err=str(error), retries=retries)
        else:
            # A defect of this program, so log the traceback.
            self.logger.error(
                "Sync failed", err=repr(error), retries=retries, exc_info=error
            )
