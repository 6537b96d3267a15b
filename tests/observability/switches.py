"""Changes from one thread to another one, which a count must survive."""

import dis
import sys
from collections.abc import Callable, Generator
from typing import Final

import pytest

_WRITES: Final = ("STORE_SUBSCR", "STORE_ATTR")


@pytest.fixture
def frequent_switches() -> Generator[None, None, None]:
    """Let the interpreter change to another thread as often as it can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def unbroken(function: Callable[..., None]) -> bool:
    """Tell whether no call and no jump is between the reads and writes of values.

    CPython changes to another thread at calls and at jumps backwards only.
    """
    names = [each.opname for each in dis.get_instructions(function)]
    writes = [at for at, name in enumerate(names) if name in _WRITES]
    found = []
    for write in writes:
        begin = max(at for at in range(write) if names[at] == "COPY")
        found += names[begin:write]
    assert writes
    return not any("CALL" in name or "JUMP" in name for name in found)
