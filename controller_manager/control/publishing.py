"""Counts the writes of a publisher, as the publishers of upstream do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from controller_manager.client.errors import APIError
from controller_manager.clock import Clock


@contextmanager
def observed(clock: Clock, synced: Callable[[int, float], None]) -> Iterator[None]:
    """Call `synced` with the HTTP status and the seconds of the write inside.

    An error of the API server counts with its status, any other as 500; both go on.
    Upstream: recordMetrics of pkg/controller/certificates/rootcacertpublisher.
    """
    started = clock.monotonic()
    code = int(HTTPStatus.OK)
    try:
        yield
    except APIError as error:
        code = error.code
        raise
    except Exception:
        code = int(HTTPStatus.INTERNAL_SERVER_ERROR)
        raise
    finally:
        synced(code, clock.monotonic() - started)
