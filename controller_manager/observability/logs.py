"""Structured logs in klog's text format or JSON, with verbosity levels.

A component is given a :class:`Logger`. ``logger.v(4).info(...)`` costs one
comparison when the level is off. Names of fields are upstream's (klog and
component-base/logs/json): `logger` is the component, `caller` the line.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from controller_manager.observability.log_output import (
    DirectOutput,
    LostLines,
    Output,
    QueuedOutput,
)

Format = Literal["text", "json"]

SYNC_FIELDS: Final[ContextVar[Mapping[str, str] | None]] = ContextVar(
    "sync_fields", default=None
)
"""The fields that each line of a sync has, also in the tasks that the sync starts.

structlog's own variables, one for each field, took 7 µs of each sync; this takes 0.3.
"""

_Render = Callable[[WrappedLogger, str, EventDict], str]

_SEVERITY: Final = {
    "debug": "I",
    "info": "I",
    "warning": "W",
    "error": "E",
    "critical": "F",
}


class Verbosity:
    """The verbosity of ``-v``, and of ``--vmodule`` for single modules."""

    __slots__ = ("_known", "_level", "_modules")

    def __init__(self, level: int = 0, modules: Sequence[tuple[str, int]] = ()) -> None:
        """Take the level, and levels by pattern of a module's name.

        A pattern with a slash is matched against the path of the module's file, any
        other pattern against its name; the first matching pattern is used.
        """
        self._level = level
        self._modules = tuple(modules)
        self._known: dict[str, int] = {}

    def allows(self, level: int, depth: int) -> bool:
        """Tell whether to log a line of `level` for the caller `depth` frames up."""
        if level <= self._level:
            return True
        if not self._modules:
            return False
        # Only --vmodule needs the calling module, which is read from the stack.
        path = sys._getframe(depth + 1).f_code.co_filename  # noqa: SLF001
        known = self._known.get(path)
        if known is None:  # not a second look-up: another thread may have forgotten it
            known = self._known[path] = self._of(Path(path).with_suffix("").as_posix())
        return level <= known

    def set_level(self, level: int) -> None:
        """Use another level from now on; the levels of modules stay."""
        self._level = level
        self._known.clear()

    def _of(self, path: str) -> int:
        name = path.rpartition("/")[2]
        for pattern, level in self._modules:
            matched = f"*/{pattern.lstrip('/')}" if "/" in pattern else pattern
            if fnmatchcase(path if "/" in pattern else name, matched):
                return level
        return self._level


class Logger:
    """A logger bound to a component and a verbosity.

    Logging never raises an error if a line cannot be written (a broken pipe, a full
    disk, a closed file): the line is lost, and counted in `lost`.
    """

    __slots__ = ("_inner", "_verbosity", "_writer", "lost")

    is_silent: ClassVar[bool] = False
    """True if it drops each line: a caller need not put its fields together."""

    def __init__(
        self,
        inner: FilteringBoundLogger,
        verbosity: Verbosity | None = None,
        lost: LostLines | None = None,
        writer: "_Writer | None" = None,
    ) -> None:
        """Wrap a structlog logger, which writes to `writer`."""
        self._inner = inner
        self._verbosity = verbosity or Verbosity()
        self._writer = writer
        self.lost = lost or LostLines()

    def bind(self, **fields: Any) -> "Logger":  # noqa: ANN401 - any value is logged
        """Return a logger that adds `fields` to every line."""
        return self._with(self._inner.bind(**fields))

    def set_verbosity(self, level: int) -> None:
        """Set the level of ``-v`` for all loggers that are made of the same root."""
        self._verbosity.set_level(level)

    def v(self, level: int) -> "Logger":
        """Return this logger if `level` is enabled, else a silent logger."""
        if not self._verbosity.allows(level, 1):
            return _SILENT
        return self._with(self._inner.bind(_v=level))

    def _with(self, inner: FilteringBoundLogger) -> "Logger":
        return Logger(inner, self._verbosity, self.lost, self._writer)

    def info(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log information."""
        self._inner.info(message, _caller=_caller(), **fields)

    def warning(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log a warning."""
        self._inner.warning(message, _caller=_caller(), **fields)

    def error(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log an error; give the cause as `err`."""
        self._inner.error(message, _caller=_caller(), **fields)

    def flush(self, seconds: float) -> bool:
        """Wait until all lines so far are written; tell whether they were, in time."""
        return self._writer is None or self._writer.flush(seconds)

    def close(self, seconds: float) -> None:
        """Write the lines that wait for that many seconds at most; log no more then.

        If the reader of the log does not read in this time, the lines are lost, and
        so is all that the process writes to the same file afterwards.
        """
        if self._writer is not None:
            self._writer.close(seconds)


def _caller() -> str:
    """Return ``directory/file.py:line`` of the code that logs."""
    frame = sys._getframe(2)  # noqa: SLF001 - logging costs enough already
    directory, _, name = frame.f_code.co_filename.rpartition("/")
    return f"{directory.rpartition('/')[2]}/{name}:{frame.f_lineno}"


class _Silent(Logger):
    is_silent: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(structlog.get_logger())

    def bind(self, **fields: Any) -> Logger:  # noqa: ANN401, ARG002
        return self

    def set_verbosity(self, level: int) -> None:
        pass

    def info(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        pass

    def warning(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        pass

    def error(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        pass


_SILENT: Final = _Silent()


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
    lost = LostLines()

    def output_to(stream: TextIO | None) -> Output:
        if not queued or stream is None or not _has_file(stream):
            return DirectOutput(stream, lost)
        return QueuedOutput(stream, lost, lambda lines: _dropped(render, lines))

    # If the process was started without standard error, sys.stderr is `None`.
    errors = output_to(stream or sys.stderr)
    writer = _Writer(errors, errors if info_stream is None else output_to(info_stream))
    inner = structlog.wrap_logger(
        writer,
        processors=[
            _add_sync_fields,
            structlog.processors.format_exc_info,
            _stamp,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        cache_logger_on_first_use=True,
    )
    return Logger(inner, Verbosity(verbosity, vmodule), lost, writer)


def _add_sync_fields(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the fields of the sync in progress, unless the line has them already."""
    for name, value in (SYNC_FIELDS.get() or {}).items():
        event.setdefault(name, value)
    return event


def _has_file(stream: TextIO) -> bool:
    try:
        stream.fileno()
    except (OSError, ValueError):  # in memory, or closed
        return False
    return True


def _dropped(render: _Render, lines: int) -> str:
    """Return a line that stands in the place of dropped ones."""
    event: EventDict = {
        "event": "Log lines dropped, because the log was not read",
        "lines": lines,
        "_caller": "observability/logs.py",
    }
    return render(None, "warning", _stamp(None, "warning", event))


class _Writer:
    """Passes errors to one output, and other lines to another."""

    def __init__(self, errors: Output, others: Output) -> None:
        self._outputs = (errors,) if others is errors else (errors, others)
        self.error = errors.write
        self.info = self.warning = others.write

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written; tell whether they were, in time."""
        deadline = time.monotonic() + seconds
        in_time = [each.flush(_left(deadline)) for each in self._outputs]
        return all(in_time)

    def close(self, seconds: float) -> None:
        """Write the lines that wait, for that many seconds at most."""
        deadline = time.monotonic() + seconds
        for each in self._outputs:
            each.close(_left(deadline))


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _stamp(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    event["_time"] = datetime.now().astimezone()
    event["_severity"] = method
    return event


def _fields(event: EventDict) -> EventDict:
    """Return the remaining fields in klog's order: logger and err first."""
    component = event.pop("component", None)
    leading = {} if component is None else {"logger": component}
    if "err" in event:
        leading["err"] = event.pop("err")
    return {**leading, **event}


def _render_text(_: WrappedLogger, __: str, event: EventDict) -> str:
    instant: datetime = event.pop("_time")
    severity = _SEVERITY[event.pop("_severity")]
    message = event.pop("event")
    caller = event.pop("_caller", "").rpartition("/")[2]
    event.pop("_v", None)
    exception = event.pop("exception", None)
    header = (
        f"{severity}{instant:%m%d %H:%M:%S.%f} {os.getpid():>7} {caller}] "
        f"{_quote(message)}"
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


def _render_json(_: WrappedLogger, __: str, event: EventDict) -> str:
    instant: datetime = event.pop("_time")
    severity: str = event.pop("_severity")
    verbosity = event.pop("_v", 0)
    # As upstream: an error has no verbosity, everything else has.
    line: Mapping[str, Any] = {
        "ts": round(instant.timestamp() * 1000, 3),
        "caller": event.pop("_caller", ""),
        "msg": event.pop("event"),
        **({} if severity == "error" else {"v": verbosity}),
        **_fields(event),
    }
    return json.dumps(line, default=str)
