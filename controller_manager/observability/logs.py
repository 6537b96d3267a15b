"""Structured logs in klog's text format or JSON, with verbosity levels.

A component is given a :class:`Logger`. ``logger.v(4).info(...)`` costs one
comparison when the level is off. Names of fields are upstream's (klog and
component-base/logs/json): `logger` is the component, `caller` the line.

What libraries log with Python's `logging` is passed on. Without a handler Python prints
their warnings to standard error, from the event loop, and in a format of its own: a log
that is not read would block the daemon there.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from structlog import BoundLoggerBase
from structlog.processors import format_exc_info
from structlog.typing import EventDict, WrappedLogger

from .log_output import QueuedOutput, StreamOutput, record_of

Format = Literal["text", "json"]

SYNC_FIELDS: Final[ContextVar[Mapping[str, str] | None]] = ContextVar(
    "sync_fields", default=None
)
"""The fields that each line of a sync has, also in the tasks that the sync starts.

structlog's own variables, one for each field, have no order.
"""

_SEVERITY: Final = {"info": "I", "warning": "W", "error": "E"}

_Output = StreamOutput | QueuedOutput


class Verbosity:
    """The verbosity of ``-v``, and of ``--vmodule`` for single modules."""

    def __init__(self, level: int, modules: Sequence[tuple[str, int]]) -> None:
        """`modules` has levels by pattern of a module's name.

        A pattern with a slash is matched against the path of the module's file, any
        other pattern against its name; the first matching pattern is used.
        """
        self.level = level
        self._level_of = cache(partial(_level_of, modules)) if modules else None

    def allows(self, level: int, depth: int) -> bool:
        """Tell whether to log a line of `level` for the caller `depth` frames up."""
        if level <= self.level:
            return True
        if self._level_of is None:
            return False
        # Only --vmodule needs the calling module, which is read from the stack.
        frame = sys._getframe(depth + 1)  # noqa: SLF001
        known = self._level_of(frame.f_code.co_filename)
        return known is not None and level <= known


def _level_of(modules: Sequence[tuple[str, int]], file: str) -> int | None:
    """Return the level of the first pattern that matches a module's file."""
    path = Path(file).with_suffix("")
    for pattern, level in modules:
        matched = f"*/{pattern.lstrip('/')}" if "/" in pattern else pattern
        if fnmatchcase(path.as_posix() if "/" in pattern else path.name, matched):
            return level
    return None


class Outputs:
    """Where the lines of all loggers of one root go."""

    def __init__(self, verbosity: Verbosity, errors: _Output, others: _Output) -> None:
        """`others` is the output of other lines, which may be the same."""
        self.verbosity = verbosity
        self.all = {errors, others}
        self.error = partial(_write, errors)
        self.info = self.warning = partial(_write, others)

    @property
    def failed(self) -> int:
        """Lines that could not be written: a broken pipe, a full disk."""
        return sum(each.failed for each in self.all)

    @property
    def dropped(self) -> int:
        """Lines for which there was no room, because nothing read the log."""
        return sum(each.dropped for each in self.all)


def _write(output: _Output, line: str) -> None:
    output.handle(record_of(line))


class Logger(BoundLoggerBase):
    """A logger bound to a component and a verbosity.

    Logging never raises an error if a line cannot be written (a broken pipe, a full
    disk, a closed file): the line is lost, and counted in `lost`.
    """

    _logger: Outputs

    @property
    def lost(self) -> Outputs:
        """The numbers of lost lines, of all loggers of the same root."""
        return self._logger

    def set_verbosity(self, level: int) -> None:
        """Set the level of ``-v`` for all loggers that are made of the same root."""
        self._logger.verbosity.level = level

    def v(self, level: int) -> "Logger":
        """Return this logger if `level` is enabled, else a silent logger."""
        if not self._logger.verbosity.allows(level, 1):
            return _SILENT
        return self.bind(_v=level)

    def info(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log information."""
        self._proxy_to_logger("info", message, _caller=_caller(), **fields)

    def warning(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log a warning."""
        self._proxy_to_logger("warning", message, _caller=_caller(), **fields)

    def error(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log an error; give the cause as `err`."""
        self._proxy_to_logger("error", message, _caller=_caller(), **fields)

    def close(self, seconds: float) -> None:
        """Write the lines that wait for that many seconds at most; log no more then.

        If the reader of the log does not read in this time, the lines are lost, and
        so is all that the process writes to the same file afterwards.
        """
        deadline = time.monotonic() + seconds
        for output in self._logger.all:
            output.end(max(0.0, deadline - time.monotonic()))


def _caller() -> str:
    """Return ``directory/file.py:line`` of the code that logs."""
    frame = sys._getframe(2)  # noqa: SLF001 - logging costs enough already
    directory, _, name = frame.f_code.co_filename.rpartition("/")
    return f"{directory.rpartition('/')[2]}/{name}:{frame.f_lineno}"


class _Silent(Logger):
    def bind(self, **_: Any) -> "_Silent":  # noqa: ANN401
        return self

    def v(self, level: int) -> "_Silent":  # noqa: ARG002
        return self

    def info(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        pass

    warning = error = info


def silent_logger() -> Logger:
    """Return a logger that drops everything."""
    return _SILENT


def make_logger(
    *,
    output: Format = "text",
    verbosity: int = 0,
    vmodule: Sequence[tuple[str, int]] = (),
    stream: TextIO | None = None,
    info_stream: TextIO | None = None,
    queued: bool = False,
) -> Logger:
    """Return the root logger.

    `output` is ``text`` (klog's header, then ``key="value"``) or ``json`` (one object
    a line). `verbosity` is the value of ``-v``, `vmodule` that of ``--vmodule``.
    `stream` defaults to standard error. If `info_stream` is given, all lines but
    errors go there. With `queued`, a thread writes the lines, and a reader that does
    not read blocks nothing (see `QueuedOutput`); the caller must call `close` at the
    end. Without it, each line is written when the call returns.
    """
    render = _render_json if output == "json" else _render_text

    def notice(lines: int) -> str:
        message = "Log lines dropped, because the log was not read"
        caller = "observability/logs.py"
        event = {"event": message, "lines": lines, "_caller": caller}
        return render(None, "warning", event)

    def output_to(stream: TextIO | None) -> _Output:
        if queued and stream is not None and _has_file(stream):
            return QueuedOutput(stream, notice)
        return StreamOutput(stream)

    # If the process was started without standard error, sys.stderr is `None`.
    errors = output_to(stream or sys.stderr)
    others = errors if info_stream is None else output_to(info_stream)
    outputs = Outputs(Verbosity(verbosity, vmodule), errors, others)
    return Logger(outputs, [_add_sync_fields, format_exc_info, render], {})


def _has_file(stream: TextIO) -> bool:
    try:
        stream.fileno()
    except (OSError, ValueError):  # in memory, or closed
        return False
    return True


def _add_sync_fields(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the fields of the sync in progress, unless the line has them already."""
    for name, value in (SYNC_FIELDS.get() or {}).items():
        event.setdefault(name, value)
    return event


def _fields(event: EventDict) -> EventDict:
    """Return the remaining fields in klog's order: logger and err first."""
    component = event.pop("component", None)
    leading = {} if component is None else {"logger": component}
    if "err" in event:
        leading["err"] = event.pop("err")
    return {**leading, **event}


def _render_text(_: WrappedLogger, method: str, event: EventDict) -> str:
    message = event.pop("event")
    caller = event.pop("_caller").rpartition("/")[2]
    event.pop("_v", None)
    exception = event.pop("exception", None)
    header = (
        f"{_SEVERITY[method]}{datetime.now():%m%d %H:%M:%S.%f} {os.getpid():>7} "  # noqa: DTZ005 - klog's local time
        f"{caller}] {_quote(message)}"
    )
    fields = "".join(
        f" {name}={_quote(value)}" for name, value in _fields(event).items()
    )
    return f"{header}{fields}" + (f"\n{exception}" if exception else "")


def _quote(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f'"{value:.6f}s"'
    if isinstance(value, int):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _render_json(_: WrappedLogger, method: str, event: EventDict) -> str:
    verbosity = event.pop("_v", 0)
    # As upstream: an error has no verbosity, everything else has.
    line: Mapping[str, Any] = {
        "ts": round(time.time() * 1000, 3),
        "caller": event.pop("_caller"),
        "msg": event.pop("event"),
        **({} if method == "error" else {"v": verbosity}),
        **_fields(event),
    }
    return json.dumps(line, default=str)


_SILENT: Final = _Silent(
    Outputs(Verbosity(0, ()), StreamOutput(), StreamOutput()), [], {}
)


class _Forwarding(logging.Handler):
    """Logs warnings and errors of libraries as lines of the daemon."""

    def __init__(self, logger: Logger) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Log one message; a message that cannot be formatted is logged as it is."""
        try:
            what = record.getMessage()
        except (TypeError, ValueError):
            what = str(record.msg)
        error = record.exc_info[1] if record.exc_info else None
        write = (
            self._logger.error
            if record.levelno >= logging.ERROR
            else self._logger.warning
        )
        write("Message of a library", library=record.name, what=what, exc_info=error)


@contextmanager
def library_logs(logger: Logger) -> Iterator[None]:
    """Write warnings and errors of libraries to `logger` while entered."""
    handler = _Forwarding(logger)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
