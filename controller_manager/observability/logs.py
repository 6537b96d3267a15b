"""Structured logs in klog's text format or JSON, with verbosity levels.

A component is given a :class:`Logger`. ``logger.v(4).info(...)`` costs one
comparison when the level is off. Names of fields are upstream's.
"""

import json
import os
import sys
from datetime import datetime
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

Format = Literal["text", "json"]

_SEVERITY: Final = {
    "debug": "I",
    "info": "I",
    "warning": "W",
    "error": "E",
    "critical": "F",
}


class Logger:
    """A logger bound to a component and a verbosity threshold."""

    __slots__ = ("_inner", "_verbosity")

    def __init__(self, inner: FilteringBoundLogger, verbosity: int = 0) -> None:
        """Wrap a structlog logger; `verbosity` is the value of ``-v``."""
        self._inner = inner
        self._verbosity = verbosity

    def bind(self, **fields: Any) -> "Logger":  # noqa: ANN401 - any value is logged
        """Return a logger that adds `fields` to every line."""
        return Logger(self._inner.bind(**fields), self._verbosity)

    def v(self, level: int) -> "Logger":
        """Return this logger if `level` is enabled, else one that is silent."""
        return self if level <= self._verbosity else _SILENT

    def info(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log what happened."""
        self._inner.info(message, **fields)

    def warning(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log what a person should know."""
        self._inner.warning(message, **fields)

    def error(self, message: str, /, **fields: Any) -> None:  # noqa: ANN401
        """Log what went wrong; give the cause as `err`."""
        self._inner.error(message, **fields)


class _Silent(Logger):
    def __init__(self) -> None:
        super().__init__(structlog.get_logger())

    def bind(self, **fields: Any) -> Logger:  # noqa: ANN401, ARG002
        return self

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
    stream: TextIO | None = None,
) -> Logger:
    """Return the root logger.

    `output` is ``text`` (klog's header, then ``key="value"``) or ``json`` (one
    object a line), `verbosity` the value of ``-v``; `stream` defaults to
    standard error.
    """
    render = _render_json if output == "json" else _render_text
    inner = structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.format_exc_info,
            _stamp,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        cache_logger_on_first_use=True,
    )
    return Logger(inner, verbosity)


def _stamp(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    event["_time"] = datetime.now().astimezone()
    event["_severity"] = method
    return event


def _render_text(_: WrappedLogger, __: str, event: EventDict) -> str:
    instant: datetime = event.pop("_time")
    severity = _SEVERITY[event.pop("_severity")]
    message = event.pop("event")
    component = event.pop("component", "main")
    exception = event.pop("exception", None)
    header = (
        f"{severity}{instant:%m%d %H:%M:%S.%f} {os.getpid():>7} {component}] "
        f"{_quote(message)}"
    )
    fields = "".join(f" {name}={_quote(value)}" for name, value in event.items())
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
    line = {
        "ts": round(instant.timestamp() * 1000, 3),
        "caller": event.pop("component", "main"),
        "msg": event.pop("event"),
        "v" if severity == "info" else "level": 0 if severity == "info" else severity,
        **event,
    }
    return json.dumps(line, default=str)
