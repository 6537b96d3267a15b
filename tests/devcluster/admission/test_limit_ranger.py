"""Limit ranges: defaults for containers, and bounds for pods and claims."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.admission.requests import PODS, container, pod, post
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

LIMITS = "/api/v1/namespaces/default/limitranges"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def limit(cluster: Cluster, *items: JSON, name: str = "l") -> JSON:
    obj = {"metadata": {"name": name}, "spec": {"limits": list(items)}}
    return await post(cluster, LIMITS, obj)


def uses(**resources: JSON) -> JSON:
    """Return the change of a spec whose one container has these resources."""
    return {"containers": [container(resources=resources)]}


async def test_defaults_follow_from_other_fields(cluster: Cluster) -> None:
    """Of containers only: a limit from max, a request from the limit or from min."""
    made = await limit(
        cluster,
        {
            "type": "Container",
            "max": {"cpu": "2"},
            "min": {"cpu": "100m", "memory": "0.5Gi"},
        },
        {"type": "Pod", "max": {"cpu": "3"}},
    )
    assert made["spec"]["limits"] == [
        {
            "type": "Container",
            "max": {"cpu": "2"},
            "min": {"cpu": "100m", "memory": "512Mi"},
            "default": {"cpu": "2"},
            "defaultRequest": {"cpu": "2", "memory": "512Mi"},
        },
        {"type": "Pod", "max": {"cpu": "3"}},
    ]


async def test_containers_get_missing_requests_and_limits(cluster: Cluster) -> None:
    """An annotation lists the added values; they decide the quality of service."""
    await limit(
        cluster,
        {
            "type": "Container",
            "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "500m", "memory": "1Gi"},
        },
    )
    made = await post(
        cluster,
        PODS,
        pod(
            initContainers=[container("i", resources={"limits": {"cpu": "2"}})],
            containers=[container("a"), container("b", resources={})],
        ),
    )
    both = {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }
    spec = made["spec"]
    assert [each["resources"] for each in spec["containers"]] == [both, both]
    assert spec["initContainers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "2", "memory": "1Gi"},
    }
    assert made["status"]["qosClass"] == "Burstable"
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu, memory request for container a; cpu, memory "
            "limit for container a; cpu, memory request for container b; cpu, memory "
            "limit for container b; memory request for init container i; memory limit "
            "for init container i"
        )
    }


@rows("item", "spec", "problem")
async def test_a_pod_that_violates_the_limits_is_refused(
    cluster: Cluster, item: JSON, spec: JSON, problem: str
) -> None:
    await limit(cluster, item)
    answer = await post(cluster, PODS, pod(**spec))
    assert answer["message"] == f'pods "p" is forbidden: {problem}'
    assert (answer["code"], answer["reason"]) == (403, "Forbidden")


@rows("size", "problem")
async def test_claims_keep_the_limits(
    cluster: Cluster, size: str, problem: str
) -> None:
    kind = "PersistentVolumeClaim"
    await limit(
        cluster, {"type": kind, "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    )
    claim = {
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }
    answer = await post(cluster, CLAIMS, claim)
    said = f'persistentvolumeclaims "c" is forbidden: {problem}' if problem else ""
    assert answer.get("message", "") == said


async def test_the_defaults_of_the_first_range_count(cluster: Cluster) -> None:
    for name, cpu in (("b", "2"), ("a", "1")):
        await limit(cluster, {"type": "Container", "default": {"cpu": cpu}}, name=name)
    made = await post(cluster, PODS, pod())
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}


@rows("items", "problems")
async def test_a_wrong_limit_range_is_refused(
    cluster: Cluster, items: list[JSON], problems: list[str]
) -> None:
    answer = await limit(cluster, *items)
    found = [
        f"{each['field']}: {each['message']}" for each in answer["details"]["causes"]
    ]
    assert found == problems


async def test_huge_amounts_do_no_harm(cluster: Cluster) -> None:
    many, few = {"cpu": "1e900"}, {"cpu": "1n"}
    answer = await limit(
        cluster,
        {
            "type": "Container",
            "min": few,
            "max": many,
            "maxLimitRequestRatio": {"cpu": "1e950"},
        },
    )
    assert answer["code"] == 422
    await limit(cluster, {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}})
    answer = await post(cluster, PODS, pod(**uses(limits=many, requests=few)))
    assert answer["code"] == 403


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
