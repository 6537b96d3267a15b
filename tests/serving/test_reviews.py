"""The rate limit of reviews, on virtual time."""

import asyncio

import pytest

from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import Client
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import silent_logger
from controller_manager.registry import registry
from controller_manager.serving.reviews import ReviewLimiter, TooManyReviews
from tests.clusters import Cluster, make_config

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
    manager = ControllerManager(
        make_config(),
        Connections(
            cluster.transport,
            authentication=cluster.transport,
            authorization=cluster.transport,
        ),
        clock=cluster.clock,
        rng=cluster.rng,
        logger=silent_logger(),
        build=registry(),
    )
    authenticator = manager._servers._authenticator()
    server = manager._servers._make_server(authenticator)
    reviewers = authenticator._client, server._access._authorizer._client
    limiters = {each._rest._limiter for each in reviewers if isinstance(each, Client)}
    assert [type(each) for each in limiters] == [ReviewLimiter] * 2
