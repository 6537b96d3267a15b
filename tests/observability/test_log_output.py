"""Log lines that wait for a reader in a bounded queue."""

import json
import os
import re
import select
import signal
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.observability import log_output
from controller_manager.observability.log_output import QueuedOutput, record_of
from controller_manager.observability.logs import Format, make_logger
from controller_manager.observability.metrics.manager import LogCollectors

PIPE = 65536
"""The bytes that a pipe holds; a writer of twice as many bytes is blocked."""


class Pipe:
    """The two ends of a pipe whose reader is the test."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        self.writer: TextIO = os.fdopen(writer, "w")
        self._seen: list[str] = []
        self._reading = threading.Thread(target=self._read_to_end)

    def read(self, size: int = 1 << 20) -> str:
        return os.read(self.reader, size).decode()

    def start_reading(self) -> None:
        self._reading.start()

    def seen(self) -> list[str]:
        self.writer.close()
        self._reading.join(20)
        return self._seen

    def _read_to_end(self) -> None:
        self._seen += "".join(iter(self.read, "")).splitlines()

    def wait_until_full(self) -> None:
        select.select([self.reader], [], [])

    def close(self) -> None:
        for end in (self.reader, self.writer):
            try:
                os.close(end) if isinstance(end, int) else end.close()
            except OSError:
                continue


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def output_to(pipe: Pipe) -> QueuedOutput:
    return QueuedOutput(pipe.writer, lambda lines: f"{lines} lines dropped")


def write(output: QueuedOutput, *lines: str) -> None:
    for line in lines:
        output.handle(record_of(line))


@pytest.fixture
def room_for_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_output, "MOST_WAITING", 3)


@pytest.mark.usefixtures("room_for_three")
def test_a_reader_that_does_not_read_blocks_nothing(pipe: Pipe) -> None:
    output = output_to(pipe)
    write(output, "a" * (2 * PIPE))
    pipe.wait_until_full()
    write(output, *"12345")
    assert (output.dropped, output.failed) == (2, 0)

    text = ""
    while not text.endswith("3\n"):
        text += pipe.read()
    assert text.split() == ["a" * (2 * PIPE), *"123"]
    write(output, "again")
    pipe.start_reading()
    output.end(10)
    assert pipe.seen() == ["2 lines dropped", "again"]
    assert (output.dropped, output.failed) == (2, 0)


@pytest.mark.usefixtures("room_for_three")
def test_the_last_line_says_how_many_were_dropped(pipe: Pipe) -> None:
    output = output_to(pipe)
    write(output, "a" * (2 * PIPE))
    pipe.wait_until_full()
    write(output, *"12345")
    pipe.start_reading()
    output.end(10)
    assert pipe.seen()[1:] == [*"123", "2 lines dropped"]


@pytest.mark.usefixtures("room_for_three")
@pytest.mark.parametrize("output", ["text", "json"])
def test_the_notice_has_the_format_of_the_log(pipe: Pipe, output: Format) -> None:
    registry = CollectorRegistry()
    logger = make_logger(output=output, stream=pipe.writer, queued=True)
    LogCollectors(registry, logger.lost)
    logger.info("a" * (2 * PIPE))
    pipe.wait_until_full()
    for _ in range(3):
        logger.info("waits")
    logger.bind(component="c").info("dropped")
    assert registry.get_sample_value("log_lines_dropped_total") == 1
    assert registry.get_sample_value("log_write_failures_total") == 0
    pipe.start_reading()
    logger.close(20)
    seen = pipe.seen()
    text = "Log lines dropped, because the log was not read"
    if output == "json":
        line = json.loads(seen[4])
        assert line.pop("ts") > 1e12
        assert line == {
            "caller": "observability/logs.py",
            "msg": text,
            "v": 0,
            "lines": 1,
        }
    else:
        header = r"W\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ logs.py\]"
        assert re.fullmatch(f'{header} "{text}" lines=1', seen[4])
    assert len(seen) == 5


def test_closing_does_not_wait_for_a_reader_that_does_not_read(pipe: Pipe) -> None:
    output = output_to(pipe)
    write(output, "a" * (2 * PIPE))
    output.end(0.05)
    pipe.writer.write("crash" * PIPE)
    pipe.writer.flush()
    assert set(pipe.read(PIPE)) == {"a"}
    # Let the thread end: its file descriptor will soon be that of another file.
    pipe.start_reading()
    assert set("".join(pipe.seen())) == {"a"}


def test_closing_writes_what_waits_and_leaves_the_file_to_others(pipe: Pipe) -> None:
    """A crash message comes after the last line."""
    output = output_to(pipe)
    for number in range(100):
        write(output, str(number))
    output.end(10)
    output.end(10)  # as when two threads end the process
    pipe.writer.write("crash\n")
    pipe.start_reading()
    assert pipe.seen() == [*map(str, range(100)), "crash"]


def test_a_reader_that_is_gone_costs_lines_that_are_counted(pipe: Pipe) -> None:
    output = output_to(pipe)
    os.close(pipe.reader)
    write(output, "one", "two\nin two parts")
    output.end(10)
    assert (output.failed, output.dropped) == (2, 0)


def test_a_file_that_does_not_block_loses_nothing(pipe: Pipe) -> None:
    """Another process that shares it may have made it so."""
    os.set_blocking(pipe.writer.fileno(), False)
    output = output_to(pipe)
    write(output, "a" * (4 * PIPE))
    write(output, "b")
    pipe.start_reading()
    output.end(10)
    assert pipe.seen() == ["a" * (4 * PIPE), "b"]
    assert (output.failed, output.dropped) == (0, 0)


def test_lines_of_several_threads_and_of_a_finalizer_all_come(pipe: Pipe) -> None:
    """A signal's handler and a finalizer may log in the middle of another line."""
    output = output_to(pipe)
    pipe.start_reading()
    before = signal.signal(signal.SIGALRM, lambda *_: write(output, "signal 0"))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)

    def count(name: int) -> None:
        for number in range(2000):
            write(output, f"{name} {number}")

    threads = [threading.Thread(target=count, args=[name]) for name in (1, 2)]
    for each in threads:
        each.start()
    count(0)
    for each in threads:
        each.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    output.end(10)
    seen = pipe.seen()
    for name in range(3):
        own = [line for line in seen if line.startswith(f"{name} ")]
        assert own == [f"{name} {number}" for number in range(2000)]
