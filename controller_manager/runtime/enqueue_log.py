"""The log at ``-v=5`` of what changes do: the keys that they add to queues, or none.

With it, and with the `watches` of a reconciler, one sees why an object was not synced.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.meta import AnyResource, key_of
from controller_manager.informers.dispatch import Handler, ignore
from controller_manager.observability.logs import SYNC_FIELDS, Logger, silent_logger

_LEVEL: Final = 5
_SILENT: Final = silent_logger()


class _Change(Struct):
    """A change whose handler runs now."""

    what: str
    adds_key: bool = False


_CHANGE: Final[ContextVar[_Change | None]] = ContextVar("change", default=None)


def enqueue_log(logger: Logger, queue: str) -> Callable[[str, float], None]:
    """Return a function that logs each key added to a queue, with the cause.

    It takes the key, and the seconds after which the key is added.
    """

    def log_key(key: str, delay: float) -> None:
        if (log := logger.v(_LEVEL)) is not _SILENT:
            fields = {"after": float(delay)} if delay > 0 else {}
            log.info("Enqueued", queue=queue, key=key, cause=_cause_for(key), **fields)

    return log_key


def _cause_for(key: str) -> str:
    if (change := _CHANGE.get()) is not None:
        change.adds_key = True
        return change.what
    if (sync := SYNC_FIELDS.get()) is None:
        return "the controller itself"
    return "its own sync" if sync["key"] == key else f"sync of {sync['key']}"


class WatchLog:
    """Logs the changes that add no key, for the handlers of one reconciler."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._seen = ""
        """The change that a handler has looked at, until all handlers have run."""

    def telling(self, resource: AnyResource, handler: Handler[Any]) -> Handler[Any]:
        """Return a handler that does the same, and logs what comes of it."""
        functions: dict[str, Any] = {}
        for verb in ("add", "update", "delete"):
            function = getattr(handler, f"on_{verb}")
            if function is not ignore:
                functions[f"on_{verb}"] = self._telling(verb, resource, function)
        return replace(handler, **functions)

    def _telling(
        self, verb: str, resource: AnyResource, function: Callable[..., None]
    ) -> Callable[..., None]:
        @wraps(function)
        def tell(*objects: Any) -> None:  # noqa: ANN401 - by the resource
            if (log := self._logger.v(_LEVEL)) is _SILENT:
                function(*objects)
                return
            change = _Change(_words(verb, resource, objects[-1]))
            self._seen = change.what
            token = _CHANGE.set(change)
            try:
                function(*objects)
            finally:
                _CHANGE.reset(token)
            if not change.adds_key:
                log.info("Change adds no key", cause=change.what)

        return tell

    def rest(self, resource: AnyResource) -> Handler[Any] | None:
        """Return a handler that logs what no other handler looks at.

        It comes after all others. It is `None` below ``-v=5``: a handler of every
        change would make heartbeats dear.
        """
        if self._logger.v(_LEVEL) is _SILENT:
            return None

        def tell(verb: str, obj: Any) -> None:  # noqa: ANN401 - by the resource
            what = _words(verb, resource, obj)
            if what != self._seen:
                self._logger.v(_LEVEL).info("No handler looks at change", cause=what)
            self._seen = ""

        return Handler(
            on_update=lambda _, new: tell("update", new),
            on_delete=lambda last: tell("delete", last),
        )


def _words(verb: str, resource: AnyResource, obj: Any) -> str:  # noqa: ANN401
    return f"{verb} of {resource.group_resource} {key_of(obj)}"
