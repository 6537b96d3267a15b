"""An explanation is followed until nothing is wrong."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from controller_manager.explain.cause import Explanation, Reference, State
from controller_manager.explain.following import follow

_POD = Reference("v1", "Pod", "shop", "web")


def explanation(state: State) -> Sequence[Explanation]:
    return [Explanation(object=_POD, state=state, summary="x")]


async def followed(
    states: Sequence[State], seconds: float
) -> tuple[list[State], float]:
    """Return the states that are shown, and the seconds that it took."""
    left = list(states)

    async def look() -> Sequence[Explanation]:
        return explanation(left.pop(0) if len(left) > 1 else left[0])

    began = asyncio.get_running_loop().time()
    async with aclosing(follow(look, seconds)) as changes:
        shown = [each[0].state async for each in changes]
    return shown, asyncio.get_running_loop().time() - began


@pytest.mark.looptime
async def test_only_changes_are_shown_until_the_object_is_healthy() -> None:
    states = [State.STUCK, State.STUCK, State.PROGRESSING, State.HEALTHY]
    shown, seconds = await followed(states, 0)
    assert shown == [State.STUCK, State.PROGRESSING, State.HEALTHY]
    assert seconds == pytest.approx(6)


@pytest.mark.looptime
async def test_it_ends_after_its_time() -> None:
    shown, seconds = await followed([State.STUCK], 5)
    assert shown == [State.STUCK]
    assert seconds == pytest.approx(4)
