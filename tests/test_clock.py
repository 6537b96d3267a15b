"""The clocks of the machine."""

import time

import pytest

from controller_manager.clock import SystemClock


@pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="no such clock on this machine"
)
def test_time_goes_on_while_the_machine_is_suspended() -> None:
    """Others may take the lease of a manager that sleeps, so it must know that."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = SystemClock().monotonic()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)
