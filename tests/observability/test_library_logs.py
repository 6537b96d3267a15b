"""Messages that libraries log with Python's `logging` become lines of the daemon."""

import io
import logging

import pytest

from controller_manager.observability.logs import library_logs, make_logger


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
