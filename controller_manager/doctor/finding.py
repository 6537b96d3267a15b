"""The findings of checks: how checks run, and the report of what they have found."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from controller_manager.client.rest.errors import (
    APIError,
    ProtocolError,
    TransportError,
)


class Level(StrEnum):
    """The severity of a finding: only an error fails the whole examination."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(Struct, frozen=True):
    """One line of the report.

    `message` is one line, and so is `mend`, which says what to do; it is empty if
    there is nothing to do.
    """

    level: Level
    message: str
    mend: str = ""


def ok(message: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(Level.OK, message)


def warning(message: str, mend: str = "") -> Finding:
    """Return a finding that does not keep the manager from working."""
    return Finding(Level.WARNING, message, mend)


def error(message: str, mend: str = "") -> Finding:
    """Return a finding because of which something does not work."""
    return Finding(Level.ERROR, message, mend)


class _Line(msgspec.Struct, frozen=True):
    check: str
    level: Level
    message: str
    mend: str


class _Document(msgspec.Struct, frozen=True):
    ok: bool
    findings: tuple[_Line, ...]


class Check(Struct, frozen=True):
    """A check: its name, and a function. It has at least one finding."""

    name: str
    run: Callable[[], Awaitable[Sequence[Finding]]]


class Result(Struct, frozen=True):
    """The findings of a check."""

    check: str
    findings: tuple[Finding, ...]


def has_errors(results: Sequence[Result]) -> bool:
    """Tell whether any finding is an error."""
    return any(
        each.level is Level.ERROR for result in results for each in result.findings
    )


def as_text(results: Sequence[Result]) -> str:
    """Return one line for each finding: level, check, message and mend, aligned."""
    lines = _lines(results)
    width = max((len(each.check) for each in lines), default=0)
    return "".join(
        f"{each.level:<7}  {each.check:<{width}}  {each.message}"
        f"{f'; mend: {each.mend}' if each.mend else ''}\n"
        for each in lines
    )


def as_json(results: Sequence[Result]) -> str:
    """Return the findings as JSON; fields are added in later versions, none removed."""
    document = _Document(not has_errors(results), tuple(_lines(results)))
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    return text.decode() + "\n"


def _lines(results: Sequence[Result]) -> list[_Line]:
    return [
        _Line(result.check, each.level, each.message, each.mend)
        for result in results
        for each in result.findings
    ]


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
