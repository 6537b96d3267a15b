"""The delays of the controllers of requests (certificate_controller.go)."""

from typing import Final

from controller_manager.workqueue.ratelimiters import ExponentialBackoff

_FIRST: Final = 0.2
_LONGEST_REFUSAL: Final = 1000.0


def request_backoff() -> ExponentialBackoff:
    """Return delays of 0.2 s, 0.4 s, 0.8 s … and two minutes at most.

    Upstream waits up to 1,000 s.
    """
    return ExponentialBackoff(_FIRST)


def refusal_backoff() -> ExponentialBackoff:
    """Return delays of 0.2 s, 0.4 s, 0.8 s … and 1,000 s at most, as upstream.

    A request that its user may not make stays until the cleaner deletes it after a day.
    """
    return ExponentialBackoff(_FIRST, _LONGEST_REFUSAL)
