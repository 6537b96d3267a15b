"""Checks run together, and their report is aligned."""

import asyncio
from collections.abc import Sequence

import pytest

from controller_manager.client.rest.errors import TransportError
from controller_manager.doctor import finding

pytestmark = pytest.mark.looptime


async def well() -> Sequence[finding.Finding]:
    await asyncio.sleep(9)
    return [finding.ok("fine")]


async def hanging() -> Sequence[finding.Finding]:
    await asyncio.Event().wait()
    return []


async def refused() -> Sequence[finding.Finding]:
    msg = "GET /version: cannot connect"
    raise TransportError(msg)


async def broken() -> Sequence[finding.Finding]:
    msg = "two\nlines"
    raise KeyError(msg)


async def test_a_check_that_hangs_or_fails_fails_alone() -> None:
    """All take as long as the slowest one, and no longer than the limit."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    checks = (well, hanging, refused, broken, well)
    found = await finding.run_checks(
        [finding.Check(each.__name__, each) for each in checks], 10
    )
    assert loop.time() - before == 10
    assert found == [
        finding.Result("well", (finding.ok("fine"),)),
        finding.Result(
            "hanging",
            (
                finding.error(
                    "no result within 10 s",
                    "look why the API server is slow, or give a longer --check-timeout",
                ),
            ),
        ),
        finding.Result("refused", (finding.error("GET /version: cannot connect"),)),
        finding.Result(
            "broken",
            (
                finding.error(
                    "the check itself failed: KeyError: 'two\\nlines'",
                    "please report it",
                ),
            ),
        ),
        finding.Result("well", (finding.ok("fine"),)),
    ]


def test_the_report_is_aligned() -> None:
    results = [
        finding.Result("lease", (finding.ok("free"),)),
        finding.Result(
            "other managers",
            (finding.error("two of them", "stop one"), finding.ok("one")),
        ),
    ]
    assert finding.as_text(results) == (
        "ok       lease           free\n"
        "error    other managers  two of them; mend: stop one\n"
        "ok       other managers  one\n"
    )
