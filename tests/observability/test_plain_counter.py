"""Counters that several threads increment."""

import threading

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.observability.plain_counter import PlainCounter
from tests.observability.switches import frequent_switches, unbroken

__all__ = ("frequent_switches",)

TIMES = 50_000
THREADS = 4


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
    assert unbroken(PlainCounter.increment)
