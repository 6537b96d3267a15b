"""An explanation is followed until nothing is wrong."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from controller_manager.explain.cause import Explanation, Reference, State
from controller_manager.explain.following import follow
from controller_manager.explain.view import Missing, Unread

_POD = Reference("v1", "Pod", "shop", "web")


def explanation(state: State) -> Sequence[Explanation]:
    return [Explanation(object=_POD, state=state, summary="x")]


def _unexpected(error: Unread) -> None:
    raise AssertionError(error)


async def followed(
    states: Sequence[State], seconds: float
) -> tuple[list[State], float]:
    left = list(states)

    async def look() -> Sequence[Explanation]:
        return explanation(left.pop(0) if len(left) > 1 else left[0])

    began = asyncio.get_running_loop().time()
    async with aclosing(follow(look, seconds, _unexpected)) as changes:
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


class _Looks:
    """Answers each look with the next of some answers, the last one for ever."""

    def __init__(self, *answers: Sequence[Explanation] | Exception) -> None:
        self._left = list(answers)
        self.failed: list[str] = []

    async def __call__(self) -> Sequence[Explanation]:
        found = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        if isinstance(found, Exception):
            raise found
        return found

    def fail(self, error: Unread) -> None:
        self.failed.append(str(error))

    async def follow(self) -> list[State]:
        async with aclosing(follow(self, 0, self.fail)) as changes:
            return [each[0].state async for each in changes]


@pytest.mark.looptime
async def test_looks_that_fail_after_an_answer_are_said_once_and_outlived() -> None:
    no = Unread("no answer in time")
    stuck, healthy = explanation(State.STUCK), explanation(State.HEALTHY)
    looks = _Looks(stuck, no, no, stuck, no, healthy)
    assert await looks.follow() == [State.STUCK, State.HEALTHY]
    assert looks.failed == ["no answer in time"] * 2


@pytest.mark.looptime
async def test_it_gives_up_after_two_minutes_without_an_answer() -> None:
    looks = _Looks(explanation(State.STUCK), Unread("no answer in time"))
    with pytest.raises(Unread, match="no answer in time"):
        await looks.follow()
    assert asyncio.get_running_loop().time() == pytest.approx(120)


@pytest.mark.looptime
@pytest.mark.parametrize("error", [Missing("there is none"), Unread("no answer")])
async def test_a_first_look_that_fails_is_an_error(error: Unread) -> None:
    with pytest.raises(type(error)):
        await _Looks(error).follow()


@pytest.mark.looptime
async def test_a_healthy_answer_that_is_incomplete_must_stay_to_be_the_end() -> None:
    (whole,) = explanation(State.HEALTHY)
    partial = [replace(whole, unread=("pods in shop: no answer in time",))]
    looks = _Looks(partial, partial, explanation(State.STUCK), partial)
    states = [State.HEALTHY, State.STUCK, State.HEALTHY]
    assert await looks.follow() == states
    assert asyncio.get_running_loop().time() == pytest.approx(2 * 7)


@pytest.mark.looptime
async def test_a_look_that_goes_on_ends_with_the_time_to_follow() -> None:
    looks = 0

    async def look() -> Sequence[Explanation]:
        nonlocal looks
        looks += 1
        if looks > 1:
            await asyncio.sleep(1000)
        return explanation(State.STUCK)

    async with aclosing(follow(look, 30, _unexpected)) as changes:
        assert [each[0].state async for each in changes] == [State.STUCK]
    assert asyncio.get_running_loop().time() == pytest.approx(30)


@pytest.mark.looptime
async def test_no_answer_in_the_time_to_follow_is_an_error() -> None:
    """Else the exit code would be that of a healthy object."""

    async def look() -> Sequence[Explanation]:
        await asyncio.sleep(1000)
        return explanation(State.STUCK)

    with pytest.raises(Unread, match="no answer in the time to follow"):
        async with aclosing(follow(look, 30, _unexpected)) as changes:
            [each async for each in changes]


@pytest.mark.looptime
async def test_an_answer_for_which_the_time_was_over_is_not_the_end() -> None:
    """The next look may be whole, however often the same one was cut."""
    (whole,) = explanation(State.HEALTHY)
    cut = [replace(whole, timed_out=True)]
    looks = _Looks(*[cut] * 9, [whole])
    assert await looks.follow() == [State.HEALTHY, State.HEALTHY]
