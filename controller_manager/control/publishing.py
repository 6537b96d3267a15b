"""What controllers share that publish an object in every namespace.

The publishers of authorities count their syncs as those of upstream do.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import ClassVar, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from controller_manager.api.core.v1 import Namespace
from controller_manager.api.meta import KubeObject
from controller_manager.client.rest.errors import APIError
from controller_manager.clock import Clock


def is_active(namespace: Namespace) -> bool:
    """Tell whether a namespace is active; nothing is created in a terminating one."""
    return namespace.status.phase == "Active"


def namespace_of(_: object, obj: KubeObject) -> Iterable[str]:
    """Return the key of an object's namespace, for `Maps`."""
    return (obj.metadata.namespace,)


_PUBLISH_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))


class PublisherMetrics:
    """The number and the duration of the syncs of a publisher, by HTTP status.

    A subclass for each publisher names the metrics.
    """

    subsystem: ClassVar[str]
    """The first part of the metrics' names."""
    total_help: ClassVar[str]
    duration_help: ClassVar[str]

    def __init__(self, registry: CollectorRegistry) -> None:
        self._syncs = Counter(
            f"{self.subsystem}_sync_total",
            self.total_help,
            ["code"],
            registry=registry,
        )
        self._seconds = Histogram(
            f"{self.subsystem}_sync_duration_seconds",
            self.duration_help,
            ["code"],
            buckets=_PUBLISH_SECONDS,
            registry=registry,
        )

    def synced(self, code: int, seconds: float) -> None:
        """Observe one sync."""
        self._syncs.labels(str(code)).inc()
        self._seconds.labels(str(code)).observe(seconds)

    @contextmanager
    def observed(self, clock: Clock) -> Iterator[None]:
        """Observe the write inside, with its HTTP status and its seconds.

        An error of the API server counts with its status, any other error as 500. The
        block raises both.
        Upstream: recordMetrics of pkg/controller/certificates/rootcacertpublisher.
        """
        started, code = clock.monotonic(), int(HTTPStatus.OK)
        try:
            yield
        except APIError as error:
            code = error.code
            raise
        except Exception:
            code = int(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise
        finally:
            self.synced(code, clock.monotonic() - started)
