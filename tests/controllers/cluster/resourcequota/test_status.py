"""The status of a quota, and the quotas that are counted first."""

import asyncio

import pytest

from controller_manager.api.core.resources import (
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
)
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.quantity import QuantityError
from controller_manager.control.quota.resources import amounts
from controller_manager.controllers.cluster.resourcequota.usage import (
    is_settled,
    limits_differ,
    status_to_write,
)
from tests.clusters import Cluster
from tests.controllers.cluster.resourcequota.counting import controller_of

Texts = dict[str, str]


def quota(
    spec: Texts, hard: Texts | None = None, used: Texts | None = None
) -> ResourceQuota:
    return ResourceQuota(
        metadata=ObjectMeta(name="q", namespace="default"),
        spec=ResourceQuotaSpec(hard=spec),
        status=ResourceQuotaStatus(hard=hard, used=used),
    )


@pytest.mark.parametrize(
    ("subject", "usage", "expected"),
    [
        # New, and counted for the first time.
        (
            quota({"cpu": "3", "pods": "5"}),
            {"cpu": "200m", "pods": "2"},
            ({"cpu": "3", "pods": "5"}, {"cpu": "200m", "pods": "2"}),
        ),
        # TestSyncResourceQuotaSpecChange.
        (
            quota({"cpu": "4"}, {"cpu": "3"}, {"cpu": "0"}),
            {"cpu": "0"},
            ({"cpu": "4"}, {"cpu": "0"}),
        ),
        # TestSyncResourceQuotaSpecHardChange: a limit was dropped.
        (
            quota(
                {"cpu": "4"},
                {"cpu": "3", "memory": "1Gi"},
                {"cpu": "0", "memory": "0"},
            ),
            {"cpu": "0"},
            ({"cpu": "4"}, {"cpu": "0"}),
        ),
        # TestSyncResourceQuotaNoChange.
        (quota({"cpu": "4"}, {"cpu": "4"}, {"cpu": "0"}), {"cpu": "0"}, None),
        # The same amounts in other words.
        (
            quota({"cpu": "4000m"}, {"cpu": "4"}, {"cpu": "1"}),
            {"cpu": "1000m"},
            None,
        ),
        # A resource that could not be counted keeps its usage.
        (
            quota({"a": "4", "b": "4"}, {"a": "4", "b": "4"}, {"a": "1", "b": "2"}),
            {"b": "3"},
            ({"a": "4", "b": "4"}, {"a": "1", "b": "3"}),
        ),
        # A resource that no source counts has no usage.
        (quota({"a": "4"}, {"a": "4"}, None), {}, None),
        (quota({"a": "4"}), {}, ({"a": "4"}, {})),
        (quota({}), {}, None),
    ],
)
def test_a_status_is_written_if_it_differs(
    subject: ResourceQuota, usage: Texts, expected: tuple[Texts, Texts] | None
) -> None:
    """Upstream's cases of TestSyncResourceQuota, and others."""
    status = status_to_write(subject, amounts(usage))
    assert (None if status is None else (status.hard, status.used)) == expected


def test_an_invalid_quantity_is_not_counted() -> None:
    """The API server lets none through."""
    with pytest.raises(QuantityError):
        status_to_write(quota({"cpu": "x"}), {})


def test_limits_are_compared_as_amounts() -> None:
    """Another text for the same amount causes no recount."""
    assert not limits_differ(quota({"cpu": "1"}), quota({"cpu": "1000m"}))
    assert limits_differ(quota({"cpu": "1"}), quota({"cpu": "2"}))
    assert is_settled(quota({"cpu": "1"}, {"cpu": "1000m"}))
    assert not is_settled(quota({"cpu": "1"}))


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("subject", "comes_first"),
    [
        (quota({"cpu": "4"}), True),
        (quota({"cpu": "4"}, {"cpu": "4"}), True),
        (quota({"cpu": "4"}, {"cpu": "6"}, {"cpu": "0"}), True),
        (quota({"a.b/c": "4"}, {"a.b/c": "4"}), False),
        (quota({"cpu": "4"}, {"cpu": "4"}, {"cpu": "0"}), False),
    ],
)
async def test_a_quota_whose_status_lacks_something_comes_first(
    cluster: Cluster, subject: ResourceQuota, comes_first: bool
) -> None:
    """TestAddQuota: what nothing counts is not missing."""
    async with controller_of(cluster) as controller:
        await asyncio.sleep(1)
        controller._enqueue(subject)
        assert (len(controller.priority), len(controller.primary)) == (
            (1, 0) if comes_first else (0, 1)
        )
