"""What a process has used, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU in seconds since the start, memory in MB now and at most."""

    cpu: float
    resident: float
    peak: float


def usage_of(pid: int) -> Usage:
    """Return what a process and its threads have used."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(stat[11]), int(stat[12])
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return Usage(
        cpu=(user + system) / _TICKS,
        resident=_megabytes(status["VmRSS"]),
        peak=_megabytes(status["VmHWM"]),
    )


def _megabytes(text: str) -> float:
    return int(text.split(maxsplit=1)[0]) / 1024


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in children]
