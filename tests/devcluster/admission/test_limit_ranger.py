"""Limit ranges: defaults for containers, and bounds for pods and claims."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.admission.requests import PODS, container, pod, post
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

LIMITS = "/api/v1/namespaces/default/limitranges"


async def limit(cluster: Cluster, *items: JSON, name: str = "l") -> JSON:
    obj = {"metadata": {"name": name}, "spec": {"limits": list(items)}}
    return await post(cluster, LIMITS, obj)


async def test_many_limits_for_many_containers_are_refused_soon(
    cluster: Cluster,
) -> None:
    """The annotation would be too long, so the server does not build it."""
    names = [f"example.com/r{number}" for number in range(3000)]
    await limit(cluster, {"type": "Container", "max": dict.fromkeys(names, "1")})
    containers = [container(f"c{number}") for number in range(300)]
    answer = await post(cluster, PODS, pod(containers=containers))
    assert answer["message"] == (
        'Pod "p" is invalid: metadata.annotations: Too long: may not be more than '
        "262144 bytes"
    )
    await call(cluster, "DELETE", f"{LIMITS}/l")
    ratios = dict.fromkeys(names, "2")
    await limit(cluster, {"type": "Container", "maxLimitRequestRatio": ratios})
    answer = await post(cluster, PODS, pod(containers=containers))
    assert answer["message"].count("max limit to request ratio") == 1000
