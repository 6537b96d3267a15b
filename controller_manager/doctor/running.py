"""Runs checks at the same time; one that hangs or fails, fails alone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Struct

from controller_manager.client.errors import APIError, ProtocolError, TransportError

from .finding import Finding, error


class Check(Struct, frozen=True):
    """A check: its name, and a function. It has at least one finding."""

    name: str
    run: Callable[[], Awaitable[Sequence[Finding]]]


class Result(Struct, frozen=True):
    """The findings of a check."""

    check: str
    findings: tuple[Finding, ...]


async def run_checks(checks: Iterable[Check], timeout: float) -> list[Result]:  # noqa: ASYNC109 - it bounds each check
    """Return the findings of each check, in the order of the checks.

    A check that has none within `timeout` seconds, or that raises an exception, has an
    error as its finding.
    """
    return await asyncio.gather(*(_run(each, timeout) for each in checks))


async def _run(check: Check, seconds: float) -> Result:
    try:
        async with asyncio.timeout(seconds):
            findings = tuple(await check.run())
    except TimeoutError:
        mend = "look why the API server is slow, or give a longer --check-timeout"
        findings = (error(f"no result within {seconds:g} s", mend),)
    except (APIError, TransportError, ProtocolError) as problem:
        findings = (error(_line(str(problem))),)
    except Exception as problem:  # noqa: BLE001 - the other checks must go on
        what = _line(f"{type(problem).__name__}: {problem}")
        findings = (error(f"the check itself failed: {what}", "please report it"),)
    return Result(check.name, findings)


def _line(text: str) -> str:
    return " ".join(text.split())
