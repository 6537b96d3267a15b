"""Plays one seed: with faults and without, to the end, and compares both ends."""

import asyncio
import gc
import hashlib
import json
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from unittest import mock

from controller_manager.manager import caches

from .checks import Checks, wrong_caches
from .disturbances import STEP, clean_up, disturb, heal, meddle_with_all
from .end import (
    State,
    by_object,
    changes_of,
    compared,
    end_state,
)
from .faults import Fault, Faults
from .fights import Fights
from .loop import VirtualLoop
from .memory import remembered_deleted, tasks_by_work
from .recorded import is_recorded, unlike
from .settled import unsettled
from .users import Users, rows_of
from .world import Stuck, World

T = TypeVar("T")

QUIET: Final = 240.0
"""Seconds without a write after which the state is final.

A watch that fell silent at the end is opened again after three minutes, and a key that
failed for a minute waits for another one.
"""

PATIENCE: Final = 1500.0
"""Seconds after the last fault within which the state must become final."""

_AT_FIRST: Final = "at first"
_CALM: Final = 20.0
"""Seconds after the first changes, and after a restart before anything goes wrong."""

_RECOVERY: Final = 90.0
"""Seconds after the last fault within which whatever must go is gone, so that users
create the same again as without faults."""

_SECOND_LOOK: Final = 90.0
_WARM_UP: Final = 5.0
_LOOK: Final = 5.0
_REOPENING: Final = 0.03
"""Seconds in which a watch that ends just now is opened again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one seed: plain data, which passes from process to process."""

    seed: int
    violations: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    story: tuple[str, ...] = ()
    seconds: float = 0.0
    writes: int = 0
    trace: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


def play(
    seed: int, only: frozenset[str] | None = None, rows: tuple[str, ...] = ()
) -> Outcome:
    """Return the outcome of a seed; `only` allows the faults of some opportunities.

    `rows` are the rows of the table that are played; the seed draws them by default.

    An error that ends the run is a violation. So is a violation without any fault; the
    outcome then has no faults.
    """
    end, outcome = _attempt(seed, only, rows)
    if outcome.violations or (not rows and is_recorded(seed, end)):
        return outcome
    undisturbed, without_faults = undisturbed_end(seed, rows)
    if without_faults.violations:
        return without_faults
    found = (f"the end: {each}" for each in compared(end, undisturbed))
    return replace(outcome, violations=tuple(found))


def undisturbed_end(seed: int, rows: tuple[str, ...] = ()) -> tuple[State, Outcome]:
    """Play a seed without faults; an end that is not as recorded is a violation."""
    end, outcome = _attempt(seed, frozenset(), rows)
    if not outcome.violations and not rows:
        problems = tuple(f"the end: {each}" for each in unlike(seed, end))
        outcome = replace(outcome, violations=problems)
    return end, outcome


def end_without_faults(seed: int) -> State:
    """Return the end to record; raises RuntimeError for one with violations."""
    end, outcome = _attempt(seed, frozenset())
    if outcome.violations:
        msg = f"seed {seed} without faults: {outcome.violations}"
        raise RuntimeError(msg)
    return end


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work` on a virtual loop of its own."""
    # The moment of garbage collection, and of finalizers, must not depend on the past.
    gc.collect()
    gc.freeze()  # so the next collection is fast
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


def _record_failure(world: World, what: Mapping[str, Any]) -> None:
    world.defects.append(what.get("exception") or RuntimeError(what["message"]))


def _attempt(
    seed: int, only: frozenset[str] | None, rows: tuple[str, ...] = ()
) -> tuple[State, Outcome]:
    """Play a seed once; an error that ends the run is a violation of its outcome."""
    faults = Faults(seed, only, active=False)
    try:
        return run(_played(seed, faults, rows))
    except (Exception, asyncio.CancelledError):  # noqa: BLE001 - reported
        violations = (f"an error ended the run: {traceback.format_exc()}",)
        outcome = Outcome(seed, violations, tuple(faults.injected))
        return {}, outcome


async def _played(
    seed: int, faults: Faults, rows: tuple[str, ...]
) -> tuple[State, Outcome]:
    # Every second world has a leader and a standby. Without faults, one would do, but
    # the number of tasks is compared.
    world = World(seed, faults, managers_wanted=1 + seed % 2)
    users = Users(world, rows_of(seed, rows), is_drawn=not rows)
    before = end_state(world)
    async with simulated(world) as checks:
        end = await _use_and_disturb(world, users, checks, before)
    digest = hashlib.sha256("\n".join(checks.trace).encode()).hexdigest()
    return end, Outcome(
        seed,
        tuple(checks.violations),
        tuple(faults.injected),
        tuple(users.story()),
        asyncio.get_running_loop().time(),
        checks.writes,
        digest,
        dict(faults.counts()),
    )


async def _use_and_disturb(
    world: World, users: Users, checks: Checks, before: State
) -> State:
    """Run users and disturbances; then wait for the final state and check it.

    After a wrong write nothing waits for the final state, and it is not checked.
    """
    at_first: State = {}
    try:
        at_first = await _begin(users, checks)
        if users.is_drawn:
            checks.violations += unlike(world.seed, at_first, _AT_FIRST)
        if not checks.violations:
            await _disturbed(world, users)
    except* Stuck as stuck:
        checks.violate(str(stuck.exceptions[0]))
    if checks.violations:
        return {}
    await _until_stable(checks)
    await asyncio.sleep(_REOPENING)
    for found in (wrong_caches, remembered_deleted, unsettled):
        checks.violations += [f"the end: {each}" for each in found(world)]
    end = changes_of(before, end_state(world))
    end["tasks"] = Counter([json.dumps(tasks_by_work(), sort_keys=True)])
    end |= at_first
    if not checks.violations:
        await _start_again(world, checks)
    return end


async def _begin(users: Users, checks: Checks) -> State:
    """Let users and strangers do everything once while nothing goes wrong.

    Then all managers start anew. Returns what controllers have written.
    """
    await asyncio.sleep(_WARM_UP)
    await users.begin()
    await meddle_with_all(users.world)
    await asyncio.sleep(_CALM)
    for manager in users.world.managers:
        manager.crash()
    await asyncio.sleep(_CALM)
    calm, checks.calm = checks.calm or {}, None
    return {
        f"{writer} {_AT_FIRST}": Counter([by_object(writes)])
        for writer, writes in calm.items()
    }


async def _disturbed(world: World, users: Users) -> None:
    """Let users go on while everything goes wrong, and finish when nothing does."""
    world.faults.active = True
    disturbing = asyncio.create_task(disturb(world))
    try:
        await users.act()
    finally:
        world.faults.active = False
        disturbing.cancel()
        await asyncio.gather(disturbing, return_exceptions=True)
    await asyncio.sleep(STEP)  # the faults that were drawn have yet to happen
    heal(world)
    clean_up(world)
    await asyncio.sleep(_RECOVERY)
    await users.finish()
    clean_up(world)


async def _start_again(world: World, checks: Checks) -> None:
    """Start all managers anew: where the state is final, they have nothing to write."""
    checks.is_final = True
    for manager in world.managers:
        manager.crash()
    await asyncio.sleep(_SECOND_LOOK)


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
        await asyncio.sleep(_LOOK)


def shrink(outcome: Outcome, patience: int = 40, rows: tuple[str, ...] = ()) -> Outcome:
    """Return the same failure with fewer faults, after `patience` tries at most.

    Faults after the first violation are dropped first; then halves, quarters …
    """
    undisturbed, without_faults = undisturbed_end(outcome.seed, rows)
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
            end, found = _attempt(
                outcome.seed, frozenset(each.opportunity for each in kept), rows
            )
            if not found.violations:
                differing = tuple(compared(end, undisturbed))
                found = replace(found, violations=differing)
            if found.violations and len(found.faults) < len(best.faults):
                best, shrunk = found, True
            start = min(start, len(best.faults)) - size
        if not shrunk or size > 1:
            size //= 2
    return best
