"""The daemon, whose main loop can be blocked from outside.

``SIGUSR1`` blocks the main thread in Python code for `STALL_SECONDS` of the
environment, as one long turn of a controller does. ``SIGUSR2`` blocks it in a call that
sleeps, as a system call does. `HUNG_SECONDS` is the time after which such a loop counts
as hung.
"""

import os
import signal
import time

from controller_manager.cli import main
from controller_manager.manager import control_loop

SECONDS = float(os.environ.get("STALL_SECONDS", "20"))


def _spin(*_: object) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        pass


def _sleep(*_: object) -> None:
    time.sleep(SECONDS)


if __name__ == "__main__":
    if "HUNG_SECONDS" in os.environ:
        control_loop.HUNG = float(os.environ["HUNG_SECONDS"])  # type: ignore[misc]
    signal.signal(signal.SIGUSR1, _spin)
    signal.signal(signal.SIGUSR2, _sleep)
    main()
