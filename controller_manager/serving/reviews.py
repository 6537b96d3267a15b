"""What authentication and authorization share: the user, and reviews of the API server.

Upstream: the clients of --authentication-kubeconfig and --authorization-kubeconfig
each send 200 requests a second with a burst of 400. A review is retried by
WithExponentialBackoff (apiserver pkg/util/webhook). Its answer is cached.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from controller_manager.client.rest import errors
from controller_manager.client.rest.limits import RequestLimiter
from controller_manager.clock import Clock

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """The user who sends a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))


_QPS: Final = 200.0
_BURST: Final = 400
_MAX_WAITING: Final = 200
"""The most reviews that may wait: the last of them waits one second."""


REVIEW_TIMEOUT: Final = 10.0
"""The seconds that all attempts of a review may take together."""

_DELAYS: Final = (0.5, 0.75, 1.125, 1.6875)
"""The seconds before each further attempt (DefaultAuthWebhookRetryBackoff)."""

AnswerT = TypeVar("AnswerT")


class TooManyReviews(Exception):
    """Too many reviews already wait, so this one is not sent (429)."""


class ReviewLimiter(RequestLimiter):
    """Allows 400 reviews at once, then 200 a second, in the order of their arrival.

    At most 200 reviews wait. A cancelled review takes no token, so clients that send
    requests and disconnect do not delay other clients.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(_QPS, _BURST, clock)
        self._reviews = 0

    async def acquire(self) -> float:
        """Wait until a review may be sent; return the seconds of the wait.

        Raises TooManyReviews at once if 200 wait already.
        """
        if self._reviews >= _MAX_WAITING:
            msg = f"{_MAX_WAITING} reviews wait for the API server, try again later"
            raise TooManyReviews(msg)
        self._reviews += 1
        try:
            return await super().acquire()
        finally:
            self._reviews -= 1


async def reviewed(send: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
    """Return the answer to a review; send it again after a failure that passes.

    One broken connection would be a 401 or a 500 for a scraper. Raises what the last
    attempt raised, and TimeoutError after ten seconds.
    """
    async with asyncio.timeout(REVIEW_TIMEOUT):
        for delay in _DELAYS:
            try:
                return await send()
            except (errors.APIError, errors.TransportError) as error:
                if not _passes(error):
                    raise
            await asyncio.sleep(delay)
        return await send()


def _passes(error: Exception) -> bool:
    """Tell whether a failure may pass soon (DefaultShouldRetry of upstream).

    Upstream recognises only connections that were reset, here all that broke count.
    """
    match error:
        case (
            errors.InternalError()
            | errors.Timeout()
            | errors.TooManyRequests()
            | errors.ServerTimeout()
        ):
            return True
        case errors.APIError():
            return bool(error.retry_after)
        case errors.NotSent():
            return isinstance(error.__cause__, ConnectionResetError)
    return not isinstance(error, errors.RequestTimeout)


KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

_SIZE: Final = 4096


class ExpiringCache(Generic[KeyT, ValueT]):
    """A cache of up to 4,096 values, each with its own time to live."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[KeyT, tuple[float, ValueT]] = OrderedDict()

    def get(self, key: KeyT) -> ValueT | None:
        """Return the value of a key, `None` if there is none or it has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        expires_at, value = entry
        if self._clock.monotonic() >= expires_at:
            del self._entries[key]
            return None
        return value

    def put(self, key: KeyT, value: ValueT, seconds: float) -> None:
        """Cache a value for `seconds`; with 0 or less, do not cache it."""
        if seconds <= 0:
            return
        self._entries[key] = (self._clock.monotonic() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > _SIZE:
            self._entries.popitem(last=False)
