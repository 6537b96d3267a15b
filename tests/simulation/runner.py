"""Plays one seed: with faults, then without, and looks at the outcome."""

import asyncio
import gc
import hashlib
import random
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.checks import Checks, end_state, wrong_caches
from tests.simulation.faults import Fault, Faults
from tests.simulation.loop import VirtualLoop
from tests.simulation.world import World

OPERATIONS: Final = 25
QUIET: Final = 600.0
"""Seconds without a write that make an end stable."""

PATIENCE: Final = 4 * 3600.0
"""Seconds after the last fault by which the end must be stable."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed."""

    seed: int
    violations: tuple[str, ...]
    faults: tuple[Fault, ...]
    seconds: float
    writes: int
    trace: str
    counts: Mapping[str, int] = field(default_factory=dict)


def play(seed: int, only: frozenset[int] | None = None) -> Outcome:
    """Return what comes of a seed; `only` allows some faults, by number."""
    undisturbed, _ = _run(_played(seed, frozenset()))
    _, outcome = _run(_played(seed, only, undisturbed))
    return outcome


def _run(work: Coroutine[Any, Any, tuple[Any, Outcome]]) -> tuple[Any, Outcome]:
    # What is collected when, and so finalised, must not depend on the past.
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(work)
    finally:
        gc.enable()
        gc.unfreeze()


async def _played(
    seed: int, only: frozenset[int] | None, expected: Any = None
) -> tuple[Any, Outcome]:
    faults = Faults(random.Random(f"faults {seed}"), only)
    world = World(seed, faults, managers_wanted=1 + seed % 2)
    checks = Checks(world)
    world.start(checks.of)
    disturbing = asyncio.create_task(world.disturb())
    await world.use(OPERATIONS)
    faults.active = False
    disturbing.cancel()
    await asyncio.gather(disturbing, return_exceptions=True)
    world.resume_all()
    await _until_stable(checks)
    state = end_state(world)
    if expected is not None and state != expected:
        checks.violations += [
            f"the end: {name} is {state[name]}, undisturbed it is {expected[name]}"
            for name in expected
            if state.get(name) != expected[name]
        ]
    checks.violations += [f"the end: {each}" for each in wrong_caches(world)]
    await world.stop()
    checks.violations += [f"defect: {error!r}" for error in world.defects]
    digest = hashlib.sha256("\n".join(checks.trace).encode()).hexdigest()
    outcome = Outcome(
        seed,
        tuple(checks.violations),
        tuple(faults.injected),
        asyncio.get_running_loop().time(),
        checks.writes,
        digest,
        dict(faults.counts()),
    )
    return state, outcome


async def _until_stable(checks: Checks) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    checks.last_write = loop.time()
    while loop.time() - checks.last_write < QUIET:
        if loop.time() > deadline:
            checks.violate(f"the end: still writing after {PATIENCE:g} s")
            return
        await asyncio.sleep(30)


def shrink(outcome: Outcome, patience: int = 60) -> Outcome:
    """Return the same failure with fewer faults, after `patience` tries at most."""
    best = outcome
    size = max(1, len(best.faults) // 2)
    tries = 0
    while size >= 1 and tries < patience:
        start = 0
        shrunk = False
        while start < len(best.faults) and tries < patience:
            kept = best.faults[:start] + best.faults[start + size :]
            tries += 1
            candidate = play(outcome.seed, frozenset(each.number for each in kept))
            if candidate.violations and len(candidate.faults) < len(best.faults):
                best, shrunk = candidate, True
            else:
                start += size
        if not shrunk:
            size //= 2
    return best
