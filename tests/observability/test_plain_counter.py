"""Counters that several threads increment."""

import dis
import sys
import threading
from collections.abc import Generator

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.observability.plain_counter import PlainCounter

TIMES = 50_000
THREADS = 4


@pytest.fixture
def frequent_switches() -> Generator[None, None, None]:
    """Let the interpreter change to another thread as often as it can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("frequent_switches")
def test_no_count_of_any_thread_is_lost() -> None:
    counter = PlainCounter("p", "So many.", ("name",), CollectorRegistry())

    def count() -> None:
        for _ in range(TIMES):
            counter.increment("a")
            counter.increment("b", by=2.0)

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = TIMES * THREADS
    assert (counter.value("a"), counter.value("b")) == (every, 2 * every)


def test_nothing_lets_another_thread_in_between_the_read_and_the_write() -> None:
    """CPython changes to another thread at calls and at jumps backwards only."""
    names = [each.opname for each in dis.get_instructions(PlainCounter.increment)]
    read = next(
        number
        for number, name in enumerate(names)
        if (name.startswith("BINARY") and "SUBSCR" in name) or name == "BINARY_OP"
    )
    between = names[read : names.index("STORE_SUBSCR")]
    assert [each for each in between if "CALL" in each or "JUMP" in each] == []
