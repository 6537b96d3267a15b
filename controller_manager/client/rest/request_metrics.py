"""The hooks that a client calls for its requests (client-go: tools/metrics)."""

from typing import Protocol


class RequestMetrics(Protocol):
    """Hooks that a client calls."""

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        """Observe one request; `code` is ``<error>`` if there was no answer."""

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        """Observe the wait for the client's own rate limiter."""

    def retried(self, method: str, code: str) -> None:
        """Count a retry; `code` is that of the last answer, ``<error>`` for none."""


class NoRequestMetrics:
    """Hooks that do nothing."""

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        """Ignore."""

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        """Ignore."""

    def retried(self, method: str, code: str) -> None:
        """Ignore."""
