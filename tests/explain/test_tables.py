"""The parts of explanations without a cluster: words, text, and following."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from controller_manager.api.meta import AnyResource
from controller_manager.explain.cause import (
    Cause,
    Explanation,
    Reference,
    State,
    merged,
    symptom,
)
from controller_manager.explain.following import follow
from controller_manager.explain.pods import condensed, remedy_for
from controller_manager.explain.report import as_json, as_text
from controller_manager.explain.target import known_kind
from controller_manager.explain.view import Missing, Unread

ROWS = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text())


@pytest.mark.parametrize(("message", "short", "remedy"), ROWS)
def test_the_schedulers_words_are_short(message: str, short: str, remedy: str) -> None:
    assert (condensed(message), remedy_for(message)) == (short, remedy)


@pytest.mark.parametrize(
    ("word", "resource"),
    [
        ("deploy", "deployments.apps"),
        ("Deployment", "deployments.apps"),
        ("deployments.apps", "deployments.apps"),
        ("deployments.v1.apps", "deployments.apps"),
        ("po", "pods"),
        ("sts", "statefulsets.apps"),
        ("pods.apps", None),
        ("widgets", None),
    ],
)
def test_a_kind_is_written_as_for_kubectl(word: str, resource: str | None) -> None:
    found: AnyResource | None = known_kind(word)
    assert (found and found.group_resource) == resource


def _cause(name: str, state: State, since: str = "", code: str = "X") -> Cause:
    reference = Reference("v1", "Pod", "shop", name)
    return Cause(code=code, state=state, what="x", object=reference, since=since)


def test_like_causes_are_merged_into_the_first_with_the_earliest_time() -> None:
    other = _cause("c", State.STUCK, "2026-01-01T00:00:03Z", "Y")
    causes = [
        _cause("b", State.STUCK, "2026-01-01T00:00:01Z"),
        other,
        _cause("a", State.STUCK, "2026-01-01T00:00:02Z"),
    ]
    first = Cause(
        code="X",
        state=State.STUCK,
        what="x",
        object=Reference("v1", "Pod", "shop", "a"),
        since="2026-01-01T00:00:01Z",
        count=2,
    )
    assert merged(causes) == (first, other)


def test_a_symptom_has_the_worst_state_of_its_causes_the_worst_first() -> None:
    moving, stuck = _cause("a", State.PROGRESSING), _cause("b", State.STUCK)
    found = symptom(_cause("web", State.HEALTHY), [moving, stuck])
    assert (found.state, found.because) == (State.STUCK, (stuck, moving))


NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEB = Reference("v1", "Pod", "default", "web")


def test_messages_of_objects_cannot_control_the_terminal() -> None:
    """Anybody who may write a status chooses them: they may hide or forge lines."""
    cause = Cause(
        code="Message",
        state=State.STUCK,
        what="pull \x1b[2J\x9b1A\x07denied \u202eoh\nRemedy: none",
        object=WEB,
        field="status.conditions[\x1b]",
    )
    found = Explanation(
        object=WEB,
        state=State.STUCK,
        summary="its phase is \x1b]0;owned\x07\nPod default/db is healthy",
        causes=(cause,),
        unread=("pods: \x1b[8m",),
    )
    first, *others = as_text([found], NOW, 100).split("\n")
    assert first == (
        "Pod default/web is stuck: its phase is \\x1b]0;owned\\x07\\nPod default/db "
        "is healthy"
    )
    assert others == [
        "",
        "Pull \\x1b[2J\\x9b1A\\x07denied \\u202eoh Remedy: none.",
        "    [Message] Pod default/web, status.conditions[\\x1b]",
        "",
        "Not read, so causes may be missing:",
        "  - pods: \\x1b[8m",
        "",
    ]


def test_letters_of_all_languages_stay_as_they_are() -> None:
    """Only characters that are not printable are escaped."""
    found = Explanation(
        object=WEB, state=State.HEALTHY, summary="\u00fcber \u65e5\u672c"
    )
    expected = "Pod default/web is healthy: \u00fcber \u65e5\u672c\n"
    assert as_text([found], NOW, 80) == expected


def test_json_has_escapes_for_characters_that_are_not_printable() -> None:
    """Programs that print a text of it find the same text; a terminal is safe."""
    summary = "\x9b1A \u202eoh \U000e0041 \u00fcber"
    found = Explanation(object=WEB, state=State.HEALTHY, summary=summary)
    document = as_json([found])
    assert all(each.isprintable() or each == "\n" for each in document)
    assert json.loads(document)["explanations"][0]["summary"] == summary
    assert "\\u009b1A \\u202eoh \\udb40\\udc41 \u00fcber" in document


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
