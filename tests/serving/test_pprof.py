"""A CPU profile in pprof's format, read by a decoder of its own."""

import asyncio
import gzip
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from controller_manager.serving import pprof
from controller_manager.serving.debug import Busy, Profiler
from controller_manager.serving.sampling import Line, Samples, Stack, sample

Message = dict[int, list[Any]]
"""The fields of a message by their numbers: numbers and bytes, in order."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position behind it."""
    value, shift = 0, 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def decoded(data: bytes) -> Message:
    message: Message = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value: int | bytes
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length
        message.setdefault(tag >> 3, []).append(value)
    return message


def numbers(data: bytes) -> list[int]:
    """Return packed numbers."""
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


class Profile:
    """A decoded profile whose references are resolved."""

    def __init__(self, data: bytes) -> None:
        self.fields = decoded(gzip.decompress(data))
        self.strings = [each.decode() for each in self.fields[6]]
        assert self.strings[0] == ""
        assert len(set(self.strings)) == len(self.strings)
        self._functions = self._by_id(5)
        self._locations = self._by_id(4)

    def _by_id(self, field: int) -> dict[int, Message]:
        messages = [decoded(each) for each in self.fields.get(field, [])]
        found = {each[1][0]: each for each in messages}
        assert len(found) == len(messages)
        assert 0 not in found
        return found

    def type(self, data: bytes) -> tuple[str, str]:
        fields = decoded(data)
        return self.strings[fields[1][0]], self.strings[fields[2][0]]

    def line(self, location: int) -> tuple[str, str, int, int]:
        """Return function, file, first line of the function, line."""
        line = decoded(self._locations[location][4][0])
        function = self._functions[line[1][0]]
        name, system_name, file = (self.strings[function[n][0]] for n in (2, 3, 4))
        assert name == system_name
        return name, file, function[5][0], line[2][0]

    def samples(self) -> Iterator[tuple[list[tuple[str, str, int, int]], list[int]]]:
        for each in self.fields.get(2, []):
            fields = decoded(each)
            lines = [self.line(number) for number in numbers(fields[1][0])]
            yield lines, numbers(fields[2][0])

    def labels(self) -> list[tuple[str, str]]:
        return [
            self.type(label)
            for each in self.fields.get(2, [])
            for label in decoded(each)[3]
        ]


def outer() -> None:
    """Be a function of a stack."""


class Some:
    """Has a method that is a function of a stack."""

    def inner(self) -> None:
        """Be the innermost function of a stack."""


def test_a_profile_has_gos_types_and_all_lines() -> None:
    """Whole numbers of samples, their CPU time, functions, files, lines, threads."""
    inner, out = Some.inner.__code__, outer.__code__
    first = Line(inner, __name__, inner.co_firstlineno + 1)
    other = Line(inner, __name__, inner.co_firstlineno + 300)
    last = Line(out, __name__, out.co_firstlineno + 2)
    profile = Profile(
        pprof.encode(
            Samples(
                started_at=1_790_000_000_123_456_789,
                duration=30_000_000_001,
                stacks=Counter(
                    {
                        Stack("MainThread", (first, last)): 3,
                        Stack("log", (other, last)): 200,
                    }
                ),
            )
        )
    )
    name, file = "tests.serving.test_pprof.", __file__
    begin, out_begin = inner.co_firstlineno, out.co_firstlineno
    bottom = (f"{name}outer", file, out_begin, out_begin + 2)
    assert list(profile.samples()) == [
        ([(f"{name}Some.inner", file, begin, begin + 1), bottom], [3, 30_000_000]),
        ([(f"{name}Some.inner", file, begin, begin + 300), bottom], [200, 2 * 10**9]),
    ]
    assert profile.labels() == [("thread", "MainThread"), ("thread", "log")]
    fields = profile.fields
    assert [profile.type(each) for each in fields[1]] == [
        ("samples", "count"),
        ("cpu", "nanoseconds"),
    ]
    assert [profile.type(each) for each in fields[11]] == [("cpu", "nanoseconds")]
    assert (fields[9], fields[10], fields[12]) == (
        [1_790_000_000_123_456_789],
        [30_000_000_001],
        [10_000_000],
    )
    assert [decoded(each) for each in fields[3]] == [{1: [1], 7: [1], 8: [1], 9: [1]}]
    assert [decoded(each)[2] for each in fields[4]] == [[1], [1], [1]]


def test_a_profile_without_samples_can_be_read() -> None:
    """The process did nothing."""
    profile = Profile(pprof.encode(Samples(started_at=1, duration=2)))
    assert list(profile.samples()) == []
    assert [profile.type(each) for each in profile.fields[1]] == [
        ("samples", "count"),
        ("cpu", "nanoseconds"),
    ]


def burn(stop: threading.Event) -> None:
    """Use the processor until told to stop."""
    while not stop.is_set():
        sum(range(1000))


def test_threads_that_work_are_sampled_and_threads_that_wait_are_not() -> None:
    """A sample stands for ten milliseconds of CPU time."""
    stop = threading.Event()
    working = threading.Thread(target=burn, args=[stop], name="working")
    waiting = threading.Thread(target=stop.wait, name="waiting")
    for each in (working, waiting):
        each.start()
    began = time.perf_counter()
    spent = time.process_time()
    samples = sample(0.5, threading.Event())
    seconds = time.perf_counter() - began
    spent = time.process_time() - spent
    stop.set()
    for each in (working, waiting):
        each.join()
    counts: Counter[str] = Counter()
    for stack, count in samples.stacks.items():
        counts[stack.thread] += count
        if stack.thread == "working":
            assert "tests.serving.test_pprof.burn" in [
                line.function for line in stack.lines
            ]
    assert counts["waiting"] == 0
    assert 5 <= counts["working"] <= spent * 100 + 1
    assert samples.duration / 1e9 == pytest.approx(seconds, abs=0.1)


async def test_a_profile_traces_no_call() -> None:
    """A trace made each handler four times slower. The interval of switches returns."""
    interval = sys.getswitchinterval()
    profiler = Profiler()
    before = sys.getprofile()
    taking = asyncio.create_task(profiler.cpu(0.2))
    await asyncio.sleep(0.05)
    assert sys.getprofile() is before
    with pytest.raises(Busy):
        await profiler.cpu(0)
    profile = Profile(await taking)
    assert profile.fields[10][0] >= 200_000_000
    assert sys.getswitchinterval() == interval


async def test_a_profile_that_is_cancelled_leaves_nothing_behind() -> None:
    """No thread that goes on, and the next profile may begin."""
    interval = sys.getswitchinterval()
    profiler = Profiler()
    taking = asyncio.create_task(profiler.cpu(60))
    await asyncio.sleep(0.05)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    assert sys.getswitchinterval() == interval
    assert Profile(await profiler.cpu(0)).fields[12] == [10_000_000]


async def test_a_profile_can_be_read_as_text() -> None:
    """Functions by their own time."""
    stop = threading.Event()
    working = threading.Thread(target=burn, args=[stop])
    working.start()
    text = await Profiler().cpu_text(0.3)
    stop.set()
    working.join()
    lines = text.splitlines()
    assert lines[0].startswith("0.3 s, of which 0.")
    assert lines[2] == " own s  total s  function"
    assert f"tests.serving.test_pprof.burn ({__file__}:" in lines[3]
