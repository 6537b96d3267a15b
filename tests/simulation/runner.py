"""Plays one seed: with faults, then without, and checks the final state."""

import asyncio
import gc
import hashlib
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from unittest import mock

from controller_manager.api.json_objects import JSON
from controller_manager.manager import caches
from tests.simulation.changes import differences
from tests.simulation.checks import Checks
from tests.simulation.disturbances import MOST_JUMP, STEP, inject_faults
from tests.simulation.ending import (
    end_state,
    remembered_deleted,
    tasks_by_work,
    wrong_caches,
    wrong_ends,
)
from tests.simulation.faults import Fault, Faults
from tests.simulation.fights import Fights
from tests.simulation.loop import VirtualLoop
from tests.simulation.world import Stuck, World

T = TypeVar("T")

OPERATIONS: Final = 25
QUIET: Final = MOST_JUMP + 60.0
"""Seconds without a write after which the state is final.

A manager whose clock is ten minutes behind waits so much longer until a pod counts as
available, as upstream's.
"""

_REOPENING: Final = 0.03
"""Seconds in which a watch that ends just now is opened again (seed 120)."""

PATIENCE: Final = 10 * QUIET
"""Seconds after the last fault within which the state must become final.

Each of the seven pods of a deployment, or the five of a stateful set, may wait for the
one before it (seed 7045).
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one seed: plain data, which passes from process to process."""

    seed: int
    violations: tuple[str, ...]
    faults: tuple[Fault, ...]
    seconds: float
    writes: int
    trace: str
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    """The traceback of the error that ended the run; empty if it came to its end."""


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The part of the state that is the same with faults and without."""

    seed: int
    more_properties: tuple[str, ...] = ()
    users: frozenset[str] | None = None

    def world(self, faults: Faults) -> World:
        """Return a new world; every second one has a leader and a standby."""
        managers = 1 + self.seed % 2
        return World(self.seed, faults, managers, self.more_properties, self.users)


@dataclass(frozen=True, slots=True)
class End:
    """State and tasks when the state is final."""

    state: JSON
    tasks: Counter[str]


def play(
    seed: int,
    only: frozenset[str] | None = None,
    more_properties: tuple[str, ...] = (),
    users: frozenset[str] | None = None,
) -> Outcome:
    """Return the outcome of a seed; `only` allows the faults of some opportunities.

    `more_properties` are modules with properties of controllers outside this tree.
    `users` are the controllers whose users act; `None` leaves the choice to the seed.
    An error that ends the run, of a user or of the simulation, is a violation.
    So is a violation without any fault; the outcome then has no faults.
    """
    cluster = _Cluster(seed, more_properties, users)
    end, outcome = _attempt(cluster, only)
    if outcome.violations:
        return outcome
    undisturbed, without_faults = _attempt(cluster, frozenset())
    if without_faults.violations:
        return without_faults
    return _compared(outcome, end, undisturbed)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work` on a virtual loop of its own."""
    # The moment of garbage collection, and of finalizers, must not depend on the past.
    gc.collect()
    gc.disable()
    try:
        with (
            mock.patch.object(caches, "gc"),  # objects that a manager froze would stay
            asyncio.Runner(loop_factory=VirtualLoop) as runner,
        ):
            return runner.run(work)
    finally:
        gc.enable()


@asynccontextmanager
async def simulated(world: World) -> AsyncGenerator[Checks, None]:
    """Run a world while entered; at the end, its checks have all violations.

    Unhandled errors, and tasks that still run afterwards, are violations, too.
    """
    checks = Checks(world)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, what: _record_failure(world, what))
    with checks.watching():
        world.start(checks.of)
        try:
            yield checks
        finally:
            await world.stop()
    checks.violations += [f"defect: {error!r}" for error in world.defects]
    checks.violations += [f"leaked: {work}" for work in tasks_by_work()]


def _attempt(cluster: _Cluster, only: frozenset[str] | None) -> tuple[End, Outcome]:
    """Play a seed once; an error that ends the run is a violation of its outcome."""
    faults = Faults(cluster.seed, only)
    try:
        return run(_played(cluster, faults))
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - reported
        what = "".join(traceback.format_exception_only(error)).strip()
        violations = (f"an error ended the run: {what}",)
        return End({}, Counter()), Outcome(
            cluster.seed,
            violations,
            tuple(faults.injected),
            seconds=0.0,
            writes=0,
            trace="",
            counts=dict(faults.counts()),
            error=traceback.format_exc(),
        )


async def _played(cluster: _Cluster, faults: Faults) -> tuple[End, Outcome]:
    world = cluster.world(faults)
    async with simulated(world) as checks:
        end = await use_and_disturb(world, checks)
    digest = hashlib.sha256("\n".join(checks.trace).encode()).hexdigest()
    return end, Outcome(
        cluster.seed,
        tuple(checks.violations),
        tuple(faults.injected),
        asyncio.get_running_loop().time(),
        checks.writes,
        digest,
        dict(faults.counts()),
    )


def _compared(outcome: Outcome, end: End, undisturbed: End) -> Outcome:
    """Return the outcome with what differs from an undisturbed run at the end.

    After another violation the end says nothing more.
    """
    if outcome.violations:
        return outcome
    differing = _differences(end, undisturbed)
    return replace(outcome, violations=tuple(differing))


def _record_failure(world: World, what: Mapping[str, Any]) -> None:
    """Record an unhandled error as a defect."""
    world.defects.append(what.get("exception") or RuntimeError(what["message"]))


async def use_and_disturb(world: World, checks: Checks) -> End:
    """Run users and disturbances; then wait for the final state and check it.

    After a wrong write nothing waits for the final state, so it is not checked: the
    caches have had no time to become right after the last faults.
    """
    disturbing = asyncio.create_task(inject_faults(world))
    try:
        await world.use(OPERATIONS)
        world.faults.active = False
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)
        await asyncio.sleep(STEP)  # the faults that were drawn have yet to happen
        await world.recreate_shop()
        await world.clean_up()
    except Stuck as error:
        disturbing.cancel()
        checks.violate(str(error))
    else:
        if checks.violations:
            return End({}, Counter())
    await _until_stable(checks)
    await asyncio.sleep(_REOPENING)
    checks.violations += [f"the end: {each}" for each in wrong_caches(world)]
    checks.violations += [f"the end: {each}" for each in wrong_ends(world)]
    checks.violations += [f"the end: {each}" for each in remembered_deleted(world)]
    return End(end_state(world), tasks_by_work())


async def _until_stable(checks: Checks) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    checks.last_write = loop.time()
    checks.fights = Fights()
    # Waiting cannot repair a violation.
    while not checks.violations and loop.time() - checks.last_write < QUIET:
        if loop.time() > deadline:
            checks.violate(f"the end: still writing after {PATIENCE:g} s")
            for each in checks.fights.report():
                checks.violate(f"the end: {each}")
            return
        await asyncio.sleep(30)


def _differences(end: End, expected: End) -> list[str]:
    problems = [
        f"the end: {'.'.join(path)} is {got}, undisturbed it is {wanted}"
        for path, wanted, got in differences(expected.state, end.state)
    ]
    if end.tasks != expected.tasks:
        more, fewer = end.tasks - expected.tasks, expected.tasks - end.tasks
        problems.append(f"the end: tasks more {dict(more)}, fewer {dict(fewer)}")
    return problems


def shrink(
    outcome: Outcome,
    patience: int = 60,
    more_properties: tuple[str, ...] = (),
    users: frozenset[str] | None = None,
) -> Outcome:
    """Return the same failure with fewer faults, after `patience` tries at most.

    Faults after the first violation are dropped first; then halves, quarters …
    """
    cluster = _Cluster(outcome.seed, more_properties, users)
    undisturbed, without_faults = _attempt(cluster, frozenset())
    if without_faults.violations:
        return without_faults
    best = outcome
    size = max(1, len(best.faults) // 2)
    tries = 0
    while size >= 1 and tries < patience:
        start = len(best.faults) - size
        shrunk = False
        while start > -size and tries < patience:
            kept = best.faults[: max(0, start)] + best.faults[start + size :]
            tries += 1
            only = frozenset(each.opportunity for each in kept)
            end, candidate = _attempt(cluster, only)
            candidate = _compared(candidate, end, undisturbed)
            if candidate.violations and len(candidate.faults) < len(best.faults):
                best, shrunk = candidate, True
            start = min(start, len(best.faults)) - size
        if not shrunk or size > 1:
            size //= 2
    return best
