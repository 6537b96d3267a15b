"""Log lines as klog and its JSON backend write them."""

import io
import json
import os
import re

import pytest

from controller_manager.observability.logs import Format, Logger, make_logger


def logging(output: Format, verbosity: int = 0) -> tuple[Logger, io.StringIO]:
    stream = io.StringIO()
    return make_logger(output=output, verbosity=verbosity, stream=stream), stream


def test_text_has_klogs_header_and_quoted_fields() -> None:
    """Severity, month and day, time, process, component."""
    logger, stream = logging("text")
    logger.bind(component="deployment").warning(
        "Sync failed", key="default/web", err='say "no"\nagain', retries=3, last=True
    )
    head, _, rest = stream.getvalue().partition("] ")
    pid = re.escape(f"{os.getpid():>7}")
    assert re.fullmatch(rf"W\d{{4}} \d\d:\d\d:\d\d\.\d{{6}} {pid} deployment", head)
    assert rest == (
        '"Sync failed" key="default/web" err="say \\"no\\"\\nagain" retries=3 '
        "last=true\n"
    )


def test_json_is_one_object_a_line() -> None:
    """Time in milliseconds, ``v`` for news and ``level`` for the rest."""
    logger, stream = logging("json")
    logger.info("Started", workers=5)
    logger.error("Stopped", err=ValueError("why"))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.pop("ts") > 1e12 for line in lines] == [True, True]
    assert lines == [
        {"caller": "main", "msg": "Started", "v": 0, "workers": 5},
        {"caller": "main", "msg": "Stopped", "level": "error", "err": "why"},
    ]


@pytest.mark.parametrize(("verbosity", "seen"), [(0, 1), (3, 1), (4, 2), (9, 2)])
def test_verbosity_lets_through_what_is_up_to_its_level(
    verbosity: int, seen: int
) -> None:
    """``-v=4`` shows levels 0 to 4."""
    logger, stream = logging("text", verbosity)
    logger.v(4).bind(key="a").info("detail")
    logger.info("always")
    assert len(stream.getvalue().splitlines()) == seen


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_traceback_goes_with_its_line(output: Format) -> None:
    """In text below it, in JSON as a field."""
    logger, stream = logging(output)
    try:
        int("x")
    except ValueError as error:
        logger.error("Panic", exc_info=error)
    written = stream.getvalue()
    if output == "json":
        written = json.loads(written)["exception"]
    assert "Traceback (most recent call last)" in written
    assert "ValueError: invalid literal for int() with base 10: 'x'" in written
