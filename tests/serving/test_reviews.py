"""Reviews: their rate limit, and their attempts after failures."""

import asyncio
import io
from collections.abc import Sequence

import pytest

from controller_manager.client.builder import Connections
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Request, Response
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.config import AuthenticationConfig, AuthorizationConfig
from controller_manager.serving.authentication import Authenticator, Refused
from controller_manager.serving.authorization import Authorizer, Decision, ReviewError
from controller_manager.serving.reviews import (
    AUTHENTICATED,
    ReviewLimiter,
    TooManyReviews,
    User,
)
from tests.clusters import Cluster, manager_of
from tests.streams import FakeTransport

pytestmark = pytest.mark.looptime


async def when(limiter: ReviewLimiter) -> float:
    """Return when a review was let through, `inf` if it was refused."""
    try:
        await limiter.acquire()
    except TooManyReviews:
        return float("inf")
    return asyncio.get_running_loop().time()


async def test_400_reviews_pass_at_once_then_200_a_second(cluster: Cluster) -> None:
    limiter = ReviewLimiter(cluster.clock)
    began = asyncio.get_running_loop().time()
    times = await asyncio.gather(*(when(limiter) for _ in range(600)))
    after = [each - began for each in times]
    assert after == sorted(after)
    assert [each for each in after if each > 0] == after[400:]
    assert (after[400], after[599]) == pytest.approx((0.005, 1.0), abs=0.02)


async def test_no_more_than_200_reviews_wait(cluster: Cluster) -> None:
    limiter = ReviewLimiter(cluster.clock)
    times = await asyncio.gather(*(when(limiter) for _ in range(1000)))
    assert [each == float("inf") for each in times] == [False] * 600 + [True] * 400
    await asyncio.sleep(0.1)
    assert await when(limiter) < float("inf")


async def test_cancelled_reviews_delay_no_other(cluster: Cluster) -> None:
    limiter = ReviewLimiter(cluster.clock)
    await asyncio.gather(*(when(limiter) for _ in range(400)))
    for _ in range(100):
        leaving = [asyncio.create_task(when(limiter)) for _ in range(100)]
        await asyncio.sleep(0)
        for each in leaving:
            each.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
    began = asyncio.get_running_loop().time()
    assert await when(limiter) - began <= 0.01


async def test_reviews_of_a_manager_are_limited(cluster: Cluster) -> None:
    """Token reviews and subject access reviews each have a limit, as upstream."""
    manager = manager_of(
        cluster,
        connections=Connections(
            cluster.transport,
            authentication=cluster.transport,
            authorization=cluster.transport,
        ),
    )
    authenticator = manager._servers._authenticator()
    server = manager._servers._make_server(authenticator)
    reviewers = authenticator._client, server._access._authorizer._client
    limiters = {each._rest._limiter for each in reviewers if isinstance(each, Client)}
    assert [type(each) for each in limiters] == [ReviewLimiter] * 2


_ALLOWED = b'{"status":{"allowed":true}}'
_KNOWN = b'{"status":{"authenticated":true,"user":{"username":"a","groups":null}}}'


class _Failing(FakeTransport):
    """Fails with each of some failures, then answers; notes when it was asked."""

    def __init__(self, failures: Sequence[Exception | Response], answer: bytes) -> None:
        self._left = [*failures]
        self._answer = answer
        self.asked: list[float] = []

    async def request(self, _: Request) -> Response:
        self.asked.append(asyncio.get_running_loop().time())
        failure = self._left.pop(0) if self._left else Response(201, {}, self._answer)
        if isinstance(failure, Exception):
            raise failure
        return failure

    def waits(self) -> list[float]:
        times = zip(self.asked, self.asked[1:], strict=False)
        return [round(later - earlier, 4) for earlier, later in times]


def _status(code: int, reason: str = "", details: str = "null") -> Response:
    text = f'{{"kind":"Status","code":{code},"reason":"{reason}","details":{details}}}'
    return Response(code, {}, text.encode())


def _reset() -> errors.NotSent:
    error = errors.NotSent("the connection was reset in its handshake")
    error.__cause__ = ConnectionResetError()
    return error


_PASSING = [
    errors.TransportError("the connection broke"),
    _reset(),
    _status(500, "InternalError"),
    _status(504, "Timeout"),
    _status(429, "TooManyRequests"),
    _status(500, "ServerTimeout"),
    _status(503, "ServiceUnavailable", '{"retryAfterSeconds":1}'),
]
_LASTING = [
    errors.NotSent("connection refused"),
    errors.RequestTimeout("no answer"),
    _status(403, "Forbidden"),
    _status(503, "ServiceUnavailable"),
    Response(201, {}, b"["),
]


def _authenticator(
    cluster: Cluster, transport: _Failing, log: io.StringIO | None = None
) -> Authenticator:
    return Authenticator(
        AuthenticationConfig(skip_lookup=True),
        Client(transport, cluster.clock),
        clock=cluster.clock,
        logger=make_logger(stream=log) if log else silent_logger(),
    )


async def _user(authenticator: Authenticator) -> User:
    return await authenticator.authenticate({"authorization": "Bearer x"}, ())


async def _decision(cluster: Cluster, transport: _Failing) -> Decision:
    authorizer = Authorizer(
        AuthorizationConfig(),
        Client(transport, cluster.clock),
        clock=cluster.clock,
        logger=silent_logger(),
    )
    return await authorizer.decide(User("a"), "get", "/metrics")


@pytest.mark.parametrize("failure", _PASSING)
async def test_a_review_is_sent_again_after_a_failure_that_passes(
    cluster: Cluster, failure: Exception | Response
) -> None:
    transport = _Failing([failure], _KNOWN)
    log = io.StringIO()
    user = await _user(_authenticator(cluster, transport, log))
    assert user == User("a", groups=(AUTHENTICATED,))
    assert transport.waits() == [0.5]
    assert log.getvalue() == ""
    transport = _Failing([failure], _ALLOWED)
    assert await _decision(cluster, transport) == Decision(allowed=True)
    assert transport.waits() == [0.5]


@pytest.mark.parametrize("failure", _LASTING)
async def test_a_failure_that_does_not_pass_is_the_answer(
    cluster: Cluster, failure: Exception | Response
) -> None:
    """A review that timed out has used up the time of the request."""
    transport = _Failing([failure], _KNOWN)
    with pytest.raises(Refused):
        await _user(_authenticator(cluster, transport))
    assert transport.waits() == []
    transport = _Failing([failure], _ALLOWED)
    with pytest.raises(ReviewError):
        await _decision(cluster, transport)
    assert transport.waits() == []


async def test_a_review_is_sent_five_times_at_most(cluster: Cluster) -> None:
    broken = errors.TransportError("the connection broke")
    waits = [0.5, 0.75, 1.125, 1.6875]
    log = io.StringIO()
    transport = _Failing([broken] * 9, _KNOWN)
    with pytest.raises(Refused, match="the connection broke"):
        await _user(_authenticator(cluster, transport, log))
    assert transport.waits() == waits
    assert len(log.getvalue().splitlines()) == 1
    transport = _Failing([broken] * 9, _ALLOWED)
    with pytest.raises(ReviewError, match="the connection broke"):
        await _decision(cluster, transport)
    assert transport.waits() == waits


async def test_all_attempts_together_have_ten_seconds(cluster: Cluster) -> None:
    """A caller waits no longer, however slow the API server is."""

    class Slow(_Failing):
        async def request(self, request: Request) -> Response:
            await asyncio.sleep(4)
            return await super().request(request)

    began = asyncio.get_running_loop().time()
    with pytest.raises(ReviewError, match="no answer within 10 s"):
        await _decision(cluster, Slow([_status(500)] * 9, _ALLOWED))
    assert asyncio.get_running_loop().time() - began == pytest.approx(10)
