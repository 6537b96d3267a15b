"""Work over many objects is spread over several turns of the event loop."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.runtime.spread import (
    Spread,
    finish,
    parts,
    sorting,
    spread,
)
from controller_manager.runtime.turns import BUDGET, Turns

pytestmark = pytest.mark.looptime


class Work:
    """A clock that only work advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self) -> float:
        return self.seconds

    def steps(self, count: int, seconds: float) -> Spread[int]:
        """Work so many times for some seconds."""
        for _ in range(count):
            self.seconds += seconds
            yield
        return count


async def turns_during(work: Spread[int], turns: Turns) -> int:
    """Return how many turns of the loop the work takes."""
    passed = 0

    async def count() -> None:
        nonlocal passed
        while True:
            passed += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await spread(work, turns)
    counting.cancel()
    return passed


async def test_work_gives_way_when_the_turn_is_used_up() -> None:
    """Ten parts of a whole budget take ten turns, short ones take none."""
    work = Work()
    turns = Turns(clock=work.clock)
    assert await turns_during(work.steps(10, BUDGET), turns) >= 10
    work = Work()
    turns = Turns(clock=work.clock)
    assert await turns_during(work.steps(10, BUDGET / 100), turns) == 0


async def test_the_result_and_the_error_of_work_are_its_caller_s() -> None:
    """As if it had been called."""

    def failing() -> Spread[None]:
        yield
        msg = "no"
        raise ValueError(msg)

    work = Work()
    turns = Turns(clock=work.clock)
    assert await spread(work.steps(3, 0.001), turns) == 3
    assert finish(work.steps(3, 0.001)) == 3
    with pytest.raises(ValueError, match="no"):
        await spread(failing(), turns)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers())), st.integers(1, 400))
def test_sorting_in_parts_is_stable(items: list[tuple[int, int]], times: int) -> None:
    """It returns what `sorted` returns, also of many runs."""
    many = items * times
    assert finish(sorting(many, key=lambda each: each[0])) == sorted(
        many, key=lambda each: each[0]
    )


def test_parts_are_of_one_size_but_the_last() -> None:
    """Nothing has no parts."""
    assert list(parts(range(5), 2)) == [range(2), range(2, 4), range(4, 5)]
    assert list(parts((), 2)) == []
