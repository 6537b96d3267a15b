"""Decide, then apply: the loop, with a controller that counts."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, Deployment
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import ObjectMeta
from controller_manager.clock import Clock
from controller_manager.control.decision import (
    Decision,
    Step,
    TooManySteps,
    decide_and_apply,
    reference_to,
)
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.runtime.outcome import Done, Failed, Outcome, Reason, Requeue

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ABOUT = ObjectReference(kind="Deployment", namespace="default", name="web")


class FixedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class Add:
    number: int

    @property
    def awaits(self) -> Reason | None:
        return Reason(f"{self.number} more", NOW, ABOUT) if self.number else None


Decided = Step[Add] | Decision[Add, str]


@dataclass
class Adder:
    """Adds to the view; refuses 13."""

    done: list[int | str] = field(default_factory=list)

    async def apply(self, view: int, action: Add) -> int:
        if action.number == 13:
            msg = "thirteen"
            raise ValueError(msg)
        self.done.append(action.number)
        return view + action.number

    async def report(self, view: int, status: str) -> None:
        self.done.append(f"{status} at {view}")


async def run(decide: Callable[[int, datetime], Decided], adder: Adder) -> Outcome:
    clock: Clock = FixedClock()
    return await decide_and_apply(0, decide, adder, clock, silent_logger())


async def test_each_step_is_decided_with_the_results_of_the_last_one() -> None:
    """The decision's actions and then its status come last."""
    seen: list[tuple[int, datetime]] = []

    def decide(view: int, now: datetime) -> Decided:
        seen.append((view, now))
        if view < 10:
            return Step((Add(2), Add(view + 3)))
        return Decision((Add(1),), status="done", requeue_after=7.0)

    adder = Adder()
    assert await run(decide, adder) == Done(7.0)
    assert seen == [(0, NOW), (5, NOW), (15, NOW)]
    assert adder.done == [2, 3, 2, 8, 1, "done at 16"]


async def test_an_action_that_fails_ends_the_sync() -> None:
    """Later actions are not carried out, and the status is not reported.

    The object is synced again at the time of the decision, as without the failure.
    """
    adder = Adder()
    actions = (Add(1), Add(13), Add(2))
    outcome = await run(lambda *_: Decision(actions, "done", requeue_after=7.0), adder)
    assert isinstance(outcome, Failed)
    assert (repr(outcome.error), outcome.requeue_after) == (
        "ValueError('thirteen')",
        7.0,
    )
    assert adder.done == [1]


async def test_an_action_that_fails_before_the_decision_ends_the_sync() -> None:
    """There is no time for the next sync yet."""
    adder = Adder()
    with pytest.raises(ValueError, match="thirteen"):
        await run(lambda *_: Step((Add(1), Add(13), Add(2))), adder)
    assert adder.done == [1]


async def test_an_unfinished_sync_asks_for_another() -> None:
    """By a requeue, or by an exception, which the worker retries with a backoff."""
    adder = Adder()
    later = Requeue(1.0, "not yet")
    assert await run(lambda *_: Decision((Add(1),), retry=later), adder) == later
    refused = ConnectionError("no")
    failed = await run(
        lambda *_: Decision((Add(2),), "failed", requeue_after=7.0, retry=refused),
        adder,
    )
    assert failed == Failed(refused, 7.0)
    assert adder.done == [1, 2, "failed at 2"]


async def test_a_sync_that_never_decides_is_ended() -> None:
    """It would block a worker for ever."""
    adder = Adder()
    with pytest.raises(TooManySteps, match="no decision after 16 steps"):
        await run(lambda *_: Step((Add(1),)), adder)
    assert adder.done == [1] * 16


@pytest.mark.parametrize(("verbosity", "count"), [(3, 0), (4, 3)])
async def test_reasons_are_logged_at_level_four(verbosity: int, count: int) -> None:
    """The reasons of a step come from its actions."""

    def decide(view: int, _: datetime) -> Decided:
        if view == 0:
            return Step((Add(2), Add(0), Add(5)))
        return Decision(reasons=(Reason("the rest", None, ABOUT),))

    stream = io.StringIO()
    logger = make_logger(output="json", verbosity=verbosity, stream=stream)
    await decide_and_apply(0, decide, Adder(), FixedClock(), logger)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    facts = [
        [line[key] for key in ("msg", "v", "waiting_for", "since", "kind", "object")]
        for line in lines
    ]
    noon, about = str(NOW), ["Deployment", "default/web"]
    assert (
        facts
        == [
            ["Waiting", 4, "2 more", noon, *about],
            ["Waiting", 4, "5 more", noon, *about],
            ["Waiting", 4, "the rest", None, *about],
        ][:count]
    )


def test_a_reference_names_the_kind_that_a_cached_object_does_not_carry() -> None:
    """With the uid, which distinguishes objects of the same name."""
    metadata = ObjectMeta(name="web", namespace="default", uid="d")
    assert reference_to(DEPLOYMENTS, Deployment(metadata=metadata)) == ObjectReference(
        api_version="apps/v1",
        kind="Deployment",
        namespace="default",
        name="web",
        uid="d",
    )
