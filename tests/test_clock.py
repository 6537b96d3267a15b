"""The system clock."""

import time

import pytest

from controller_manager.clock import SystemClock


@pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="no such clock on this machine"
)
def test_time_goes_on_while_the_machine_is_suspended() -> None:
    """Other managers may take the lease meanwhile, so the manager must notice."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = SystemClock().monotonic()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)
