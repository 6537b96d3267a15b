"""Log lines as klog and its JSON backend write them, also of libraries and the loop."""

import asyncio
import io
import json
import logging
import os
import re
import sys
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import (
    Format,
    Logger,
    library_logs,
    make_logger,
)
from controller_manager.observability.metrics.manager import LogCollectors


def logged(output: Format, verbosity: int = 0) -> tuple[Logger, io.StringIO]:
    stream = io.StringIO()
    return make_logger(output=output, verbosity=verbosity, stream=stream), stream


def test_text_has_klogs_header_and_quoted_fields() -> None:
    logger, stream = logged("text")
    logger.bind(component="deployment").warning(
        "Sync failed", key="default/web", err='say "no"\nagain', retries=3, last=True
    )
    head, _, rest = stream.getvalue().partition("] ")
    pid = re.escape(f"{os.getpid():>7}")
    line = r"test_logs\.py:\d+"
    assert re.fullmatch(rf"W\d{{4}} \d\d:\d\d:\d\d\.\d{{6}} {pid} {line}", head)
    assert rest == (
        '"Sync failed" logger="deployment" err="say \\"no\\"\\nagain" '
        'key="default/web" retries=3 last=true\n'
    )


def test_json_is_one_object_a_line() -> None:
    logger, stream = logged("json", 2)
    logger.info("Started", workers=5)
    logger.bind(component="queue").v(2).info("Working")
    logger.error("Stopped", err=ValueError("why"))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.pop("ts") > 1e12 for line in lines] == [True, True, True]
    callers = [line.pop("caller").rpartition(":")[0] for line in lines]
    assert callers == ["observability/test_logs.py"] * 3
    assert lines == [
        {"msg": "Started", "v": 0, "workers": 5},
        {"msg": "Working", "v": 2, "logger": "queue"},
        {"msg": "Stopped", "err": "why"},
    ]


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [
        ("test_logs", 1),
        ("test_*", 1),
        ("observability/test_logs", 1),
        ("other", 0),
        ("informers/*", 0),
    ],
)
def test_single_modules_may_be_more_verbose(pattern: str, seen: int) -> None:
    stream = io.StringIO()
    logger = make_logger(vmodule=[(pattern, 4)], stream=stream)
    logger.v(4).info("detail")
    logger.v(5).info("too much")
    assert len(stream.getvalue().splitlines()) == seen


def test_errors_may_go_to_a_stream_of_their_own() -> None:
    errors, others = io.StringIO(), io.StringIO()
    logger = make_logger(stream=errors, info_stream=others)
    logger.info("news")
    logger.warning("caution")
    logger.error("trouble")
    assert [line.split('"')[1] for line in others.getvalue().splitlines()] == [
        "news",
        "caution",
    ]
    assert errors.getvalue().count("trouble") == 1


@pytest.mark.parametrize(("verbosity", "seen"), [(0, 1), (3, 1), (4, 2), (9, 2)])
def test_verbosity_lets_lines_up_to_its_level_through(
    verbosity: int, seen: int
) -> None:
    logger, stream = logged("text", verbosity)
    logger.v(4).bind(key="a").info("detail")
    logger.info("always")
    assert len(stream.getvalue().splitlines()) == seen


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_traceback_goes_with_its_line(output: Format) -> None:
    logger, stream = logged(output)
    try:
        int("x")
    except ValueError as error:
        logger.error("Panic", exc_info=error)
    written = stream.getvalue()
    if output == "json":
        written = json.loads(written)["exception"]
    assert "Traceback (most recent call last)" in written
    assert "ValueError: invalid literal for int() with base 10: 'x'" in written


class _Broken(io.StringIO):
    """A stream that fails as a broken pipe does."""

    def flush(self) -> None:
        raise BrokenPipeError


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("make", [_Broken, closed])
def test_a_line_that_cannot_be_written_is_counted(
    make: Callable[[], io.StringIO], output: Format
) -> None:
    logger = make_logger(output=output, verbosity=4, stream=make())
    bound = logger.bind(component="a").v(4)
    bound.info("lost")
    logger.warning("lost")
    logger.error("lost", exc_info=ValueError("why"))
    assert (logger.lost.failed, bound.lost.failed) == (3, 3)


def test_a_process_without_standard_error_logs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was started with it closed."""
    monkeypatch.setattr(sys, "stderr", None)
    logger = make_logger()
    logger.info("lost")
    assert logger.lost.failed == 1


def test_lines_that_were_lost_are_exposed() -> None:
    registry = CollectorRegistry()
    logger = make_logger(stream=_Broken())
    LogCollectors(registry, logger.lost)
    before = registry.get_sample_value("log_write_failures_total")
    logger.info("lost")
    after = registry.get_sample_value("log_write_failures_total")
    assert (before, after) == (0, 1)


def test_warnings_of_libraries_become_lines_of_the_daemon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    stream = io.StringIO()
    library = logging.getLogger("some.library")
    with library_logs(make_logger(stream=stream)):
        library.info("silent")
        library.warning("socket.send() raised %s", "EPIPE")
        library.warning("%d sockets", "no")
        try:
            int("x")
        except ValueError:
            library.exception("cannot parse")
    library.warning("not ours any more")
    lines = stream.getvalue().splitlines()
    texts = [line.partition("] ")[2] for line in lines[:3]]
    assert [line[0] for line in lines[:3]] == ["W", "W", "E"]
    head = '"Message of a library" library="some.library" what='
    assert texts == [
        f'{head}"socket.send() raised EPIPE"',
        f'{head}"%d sockets"',
        f'{head}"cannot parse"',
    ]
    assert lines[-1] == "ValueError: invalid literal for int() with base 10: 'x'"
    assert "not ours" not in stream.getvalue()
    assert capsys.readouterr().err == "not ours any more\n"


async def test_an_unhandled_error_of_the_loop_is_logged() -> None:
    """An error about a closed connection is logged only with -v=4."""
    logs = []
    for verbosity in (0, 4):
        stream = io.StringIO()
        log_loop_errors(make_logger(verbosity=verbosity, stream=stream))
        loop = asyncio.get_running_loop()
        cut = RuntimeError("unable to perform operation; the handler is closed")
        for error in (cut, ValueError("defect")):
            loop.call_exception_handler({"message": "Failed", "exception": error})
        lines = stream.getvalue().splitlines()
        logs.append([line.partition("] ")[2] for line in lines if "] " in line])
    assert [[line.split('"')[1] for line in log] for log in logs] == [
        ["Unhandled error in the event loop"],
        ["Connection was closed", "Unhandled error in the event loop"],
    ]
