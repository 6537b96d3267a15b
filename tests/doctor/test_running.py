"""Checks run at the same time, and each fails alone."""

import asyncio
from collections.abc import Sequence

import pytest

from controller_manager.client.rest.errors import TransportError
from controller_manager.doctor.finding import (
    Check,
    Finding,
    Result,
    as_text,
    error,
    ok,
    run_checks,
)

pytestmark = pytest.mark.looptime


async def well() -> Sequence[Finding]:
    await asyncio.sleep(9)
    return [ok("fine")]


async def hanging() -> Sequence[Finding]:
    await asyncio.Event().wait()
    return []


async def refused() -> Sequence[Finding]:
    msg = "GET /version: cannot connect"
    raise TransportError(msg)


async def broken() -> Sequence[Finding]:
    msg = "two\nlines"
    raise KeyError(msg)


async def test_a_check_that_hangs_or_fails_fails_alone() -> None:
    """All take as long as the slowest one, and no longer than the limit."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    checks = (well, hanging, refused, broken, well)
    found = await run_checks([Check(each.__name__, each) for each in checks], 10)
    assert loop.time() - before == 10
    assert found == [
        Result("well", (ok("fine"),)),
        Result(
            "hanging",
            (
                error(
                    "no result within 10 s",
                    "look why the API server is slow, or give a longer --check-timeout",
                ),
            ),
        ),
        Result("refused", (error("GET /version: cannot connect"),)),
        Result(
            "broken",
            (
                error(
                    "the check itself failed: KeyError: 'two\\nlines'",
                    "please report it",
                ),
            ),
        ),
        Result("well", (ok("fine"),)),
    ]


def test_the_report_is_aligned() -> None:
    results = [
        Result("lease", (ok("free"),)),
        Result("other managers", (error("two of them", "stop one"), ok("one"))),
    ]
    assert as_text(results) == (
        "ok       lease           free\n"
        "error    other managers  two of them; mend: stop one\n"
        "ok       other managers  one\n"
    )
