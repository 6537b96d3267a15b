"""The CPU time and memory of a process, from its CPU clock and /proc."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SCHEDULED: Final = 2
"""Linux' CPUCLOCK_SCHED: the kind of CPU clock that counts nanoseconds."""


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU in seconds since the start, memory in MB now and at most."""

    cpu: float
    resident: float
    peak: float


def usage_of(pid: int) -> Usage:
    """Return the usage of a process, with all its threads."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return Usage(
        cpu=_cpu_of(pid),
        resident=_megabytes(status["VmRSS"]),
        peak=_megabytes(status["VmHWM"]),
    )


def proportional_of(pid: int) -> float:
    """Return the memory of a process in MB, with its share of what others use, too."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return _megabytes(next(each for each in lines if each.startswith("Pss:"))[4:])


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process.

    /proc/PID/stat counts in ticks of 10 ms: an idle manager uses less in 10 s. The
    id of a process' clock is computed as in glibc's clock_getcpuclockid.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def _megabytes(text: str) -> float:
    return int(text.split(maxsplit=1)[0]) / 1024


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in children]
