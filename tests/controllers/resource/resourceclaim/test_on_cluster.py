"""Pods get their claims to devices, on a cluster in memory and on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS
from controller_manager.api.meta import OwnerReference
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import RequestTimeout
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import ROOT_CA, Cluster, run_manager
from tests.controllers.resource.resourceclaim.objects import (
    API,
    CONFIG,
    add_claim,
    add_pod,
    add_template,
    claims,
    delete_claim,
    direct,
    end,
    events,
    from_template,
    pod_reference,
    remove,
    requests,
    reserved,
    status_names,
    uid_of,
)
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

CLAIM: Final = "resourceclaims/c"
NOT_FOUND: Final = (
    'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
)


async def test_claims_are_created_from_templates_and_named_in_order() -> None:
    cluster = Cluster(rbac=True)
    async with cluster.confined_manager(CONFIG) as recording:
        add_template(cluster, labels={"a": "b"}, annotations={"x": "y"})
        add_pod(cluster, "p", from_template("nic"), direct(), from_template("gpu"))
        await asyncio.sleep(1)
        made, names = await claims(cluster), await status_names(cluster)
        uid = await uid_of(cluster, "p")
    assert [name.rpartition("-")[0] for name in made] == ["p-gpu", "p-nic"]
    assert names == {
        each: next(name for name in made if each in name) for each in ("nic", "gpu")
    }
    assert list(names) == ["nic", "gpu"]
    owner = OwnerReference(
        api_version="v1", kind="Pod", name="p", uid=uid, controller=True
    )
    for claim in made.values():
        assert claim.metadata.owner_references == (owner,)
        assert claim.metadata.labels == {"a": "b"}
    assert requests(recording.writes) == [
        ("POST", "resourceclaims", 201),
        ("POST", "resourceclaims", 201),
        ("PATCH", "pods/p/status", 200),
    ]


async def test_a_deleted_claim_is_created_again_and_the_other_stays_in_the_status() -> (
    None
):
    """Upstream removes the other claim from the status, and adds it again, for ever."""
    cluster = Cluster()
    add_template(cluster)
    add_pod(cluster, "p", from_template("gpu"), from_template("nic"))
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        before = await status_names(cluster)
        await delete_claim(cluster, str(before["gpu"]))
        await asyncio.sleep(60)
        after, made = await status_names(cluster), await claims(cluster)
    assert after["nic"] == before["nic"]
    assert after["gpu"] != before["gpu"]
    assert set(after.values()) == made.keys()
    assert requests(recording.writes)[3:] == [
        ("POST", "resourceclaims", 201),
        ("PATCH", "pods/p/status", 200),
    ]


async def test_a_pod_waits_for_its_template_and_an_event_reports_it() -> None:
    cluster = Cluster()
    add_pod(cluster, "p", from_template())
    async with cluster.manager(CONFIG):
        await asyncio.sleep(600)
        assert await claims(cluster) == {}
        add_template(cluster)
        await asyncio.sleep(0.1)
        assert len(await claims(cluster)) == 1
        found = await events(cluster)
    assert set(found) == {
        (
            "Pod/p",
            "Warning",
            "FailedResourceClaimCreation",
            "resource_claim",
            f"PodResourceClaim gpu: {NOT_FOUND}",
        )
    }


async def test_a_claim_that_is_refused_is_tried_again_and_an_event_has_the_reason() -> (
    None
):
    """A quota may be full for a while."""
    cluster = Cluster()
    failures = 2

    async def refuse(request: Request) -> Response | None:
        nonlocal failures
        if request.method == "POST" and "resourceclaims" in request.path and failures:
            failures -= 1
            body = b'{"kind": "Status", "reason": "Forbidden", "message": "full"}'
            return Response(HTTPStatus.FORBIDDEN, {}, body)
        return None

    add_template(cluster)
    add_pod(cluster, "p", from_template())
    async with cluster.manager(CONFIG, Meddler(cluster.transport, refuse)):
        await asyncio.sleep(10)
        assert len(await claims(cluster)) == 1
        messages = [each[-1] for each in await events(cluster)]
    assert messages == ["PodResourceClaim gpu: create ResourceClaim : full"]


async def test_a_claim_whose_name_could_not_be_written_is_not_created_twice() -> None:
    """The manager finds it by its owner, and so does the next manager."""
    cluster = Cluster()
    fails = True

    async def fail(request: Request) -> Response | None:
        if fails and request.method == "PATCH" and request.path.endswith("p/status"):
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR, {}, b"{}")
        return None

    add_template(cluster)
    add_pod(cluster, "p", from_template())
    transport = Meddler(cluster.transport, fail)
    async with cluster.manager(CONFIG, transport):
        await asyncio.sleep(30)
        assert len(await claims(cluster)) == 1
    fails = False
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
    assert set((await status_names(cluster)).values()) == (await claims(cluster)).keys()


async def test_a_claim_is_reserved_for_bound_pods_and_released_with_the_last() -> None:
    cluster = Cluster(rbac=True)
    async with cluster.confined_manager(CONFIG) as recording:
        add_claim(cluster)
        add_pod(cluster, "waiting", direct())
        for name in ("p", "q"):
            add_pod(cluster, name, direct(), nodeName="n")
            await asyncio.sleep(1)
        assert await reserved(cluster) == ["p", "q"]
        await remove(cluster, "p")
        await asyncio.sleep(1)
        assert await reserved(cluster) == ["q"]
        await remove(cluster, "q")
        await asyncio.sleep(1)
        claim = (await claims(cluster))["c"]
    assert claim.status.reserved_for is None
    assert claim.status.allocation is None
    assert claim.metadata.finalizers == ("example.com/hold",)
    assert requests(recording.writes) == [
        ("PATCH", f"{CLAIM}/status", 200),
        ("PATCH", f"{CLAIM}/status", 200),
        ("PATCH", f"{CLAIM}/status", 200),
        ("PATCH", f"{CLAIM}/status", 200),
        ("PATCH", CLAIM, 200),
    ]
    for each in recording.writes:
        assert each.body.count(b"resourceVersion") == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_loses_its_claims_once(phase: str) -> None:
    """Upstream creates, reserves and releases them again in a hot loop."""
    cluster = Cluster()
    add_claim(cluster)
    add_template(cluster)
    add_pod(cluster, "p", direct(), from_template(), nodeName="n")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        assert await reserved(cluster) == ["p"]
        made = next(each for each in await claims(cluster) if each != "c")
        del recording.writes[:]
        await end(cluster, "p", phase)
        await asyncio.sleep(3600)
        claim = (await claims(cluster))["c"]
        assert list(await claims(cluster)) == ["c"]
    assert (claim.status.allocation, claim.status.reserved_for) == (None, None)
    assert sorted(requests(recording.writes)) == [
        ("DELETE", f"resourceclaims/{made}", 200),
        ("PATCH", CLAIM, 200),
        ("PATCH", f"{CLAIM}/status", 200),
    ]


async def test_consumers_that_were_deleted_while_no_process_led_are_released() -> None:
    cluster = Cluster()
    add_pod(cluster, "p", direct("other"))
    uid = await uid_of(cluster, "p")
    other = {"apiGroup": "example.com", "resource": "x", "name": "x", "uid": "3"}
    consumers = [pod_reference("gone", "1"), pod_reference("p", "2"), other]
    add_claim(cluster, "c", *consumers, pod_reference("p", uid))
    add_claim(cluster, "free", *consumers[:2])
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        found = await claims(cluster)
    left = found["c"].status.reserved_for or ()
    assert [(each.name, each.uid) for each in left] == [("x", "3"), ("p", uid)]
    assert found["c"].status.allocation is not None
    assert found["free"].status.allocation is None


async def test_a_claim_without_consumers_stays_allocated_until_it_is_deleted() -> None:
    cluster = Cluster()
    add_claim(cluster)
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(60)
        assert recording.writes == []
        await delete_claim(cluster, "c")
        await asyncio.sleep(1)
        claim = (await claims(cluster))["c"]
    assert claim.status.allocation is None
    assert claim.metadata.finalizers == ("example.com/hold",)
    assert requests(recording.writes) == [
        ("PATCH", f"{CLAIM}/status", 200),
        ("PATCH", CLAIM, 200),
    ]


async def test_a_deleted_claim_that_a_pod_uses_stays_until_the_pod_is_gone() -> None:
    cluster = Cluster()
    add_claim(cluster)
    add_pod(cluster, "p", direct(), nodeName="n")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        await delete_claim(cluster, "c")
        await asyncio.sleep(60)
        claim = (await claims(cluster))["c"]
        assert claim.status.allocation is not None
        assert await reserved(cluster) == ["p"]
        await remove(cluster, "p")
        await asyncio.sleep(1)
        claim = (await claims(cluster))["c"]
    assert claim.metadata.finalizers == ("example.com/hold",)


async def test_the_claim_of_extended_resources_is_released_with_its_pod() -> None:
    cluster = Cluster()
    status = {
        "extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []}
    }
    add_pod(cluster, "p", nodeName="n", status=status)
    add_claim(cluster, "c", pod_reference("p", await uid_of(cluster, "p")))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        assert await reserved(cluster) == ["p"]
        await end(cluster, "p")
        await asyncio.sleep(1)
        assert await reserved(cluster) == []


async def test_a_claim_with_the_most_consumers_gets_no_further_request() -> None:
    """The next pod gets it when another has left; upstream's requests are refused."""
    cluster = Cluster()
    add_pod(cluster, "old", direct(), nodeName="n")
    others = [
        {
            "apiGroup": "example.com",
            "resource": "x",
            "name": f"x{number}",
            "uid": f"{number}",
        }
        for number in range(255)
    ]
    old = pod_reference("old", await uid_of(cluster, "old"))
    add_claim(cluster, "c", *others, old)
    add_pod(cluster, "new", direct(), nodeName="n")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(60)
        assert requests(recording.writes) == []
        await remove(cluster, "old")
        await asyncio.sleep(1)
        assert (await reserved(cluster))[-1] == "new"


async def test_a_scheduler_that_was_faster_is_not_overwritten() -> None:
    cluster = Cluster()
    add_claim(cluster)
    add_pod(cluster, "q", direct())
    uid = await uid_of(cluster, "q")
    has_reserved = False

    async def reserve_first(request: Request) -> Response | None:
        nonlocal has_reserved
        if request.method == "PATCH" and not has_reserved:
            has_reserved = True
            patch = {"status": {"reservedFor": [pod_reference("q", uid)]}}
            await cluster.client.patch(
                RESOURCE_CLAIMS, "default", "c", patch, subresource="status"
            )
        return None

    add_pod(cluster, "p", direct(), nodeName="n")
    async with cluster.manager(CONFIG, Meddler(cluster.transport, reserve_first)):
        await asyncio.sleep(5)
        assert await reserved(cluster) == ["q", "p"]


async def test_pods_that_share_a_claim_get_it_with_one_write_each() -> None:
    cluster = Cluster()
    add_claim(cluster)
    async with cluster.manager(CONFIG) as recording:
        for number in range(60):
            add_pod(cluster, f"p{number}", direct(), nodeName="n")
        await asyncio.sleep(10)
        assert len(await reserved(cluster)) == 60
    assert requests(recording.writes) == [("PATCH", f"{CLAIM}/status", 200)] * 60


async def test_pods_without_claims_cost_nothing() -> None:
    cluster = Cluster()
    async with cluster.manager(CONFIG) as recording:
        for number in range(10):
            add_pod(cluster, f"p{number}", nodeName="n")
        await asyncio.sleep(1)
        await end(cluster, "p0")
        await remove(cluster, "p1")
        await asyncio.sleep(1)
        assert recording.writes == []


def answer_for_pod(uid: str) -> Callable[[Request], Awaitable[Response | None]]:
    body = {"metadata": {"name": "p", "namespace": "default", "uid": uid}}

    async def answer(request: Request) -> Response | None:
        if request.method == "GET" and request.path.endswith("/pods/p"):
            return Response(HTTPStatus.OK, {}, msgspec.json.encode(body))
        return None

    return answer


async def test_the_pod_of_a_stale_cache_gets_no_claim() -> None:
    cluster = Cluster()
    add_template(cluster)
    add_pod(cluster, "p", from_template(), nodeName="n")
    transport = Meddler(cluster.transport, answer_for_pod("other"))
    async with cluster.manager(CONFIG, transport):
        await asyncio.sleep(10)
        assert await claims(cluster) == {}


async def test_a_claim_stays_reserved_for_a_pod_that_is_newer_than_the_cache() -> None:
    """Upstream releases it if the cache shows an older pod of the same name."""
    cluster = Cluster()
    add_pod(cluster, "p", direct("none"))
    add_claim(cluster, "c", pod_reference("p", "newer"))
    transport = Meddler(cluster.transport, answer_for_pod("newer"))
    async with cluster.manager(CONFIG, transport) as recording:
        await asyncio.sleep(10)
        assert requests(recording.writes) == []


async def test_a_404_that_is_not_about_the_pod_releases_no_claim() -> None:
    cluster = Cluster()
    add_claim(cluster, "c", pod_reference("p", "1"))
    ends = False

    async def answer(request: Request) -> Response | None:
        if request.method == "GET" and request.path.endswith("/pods/p") and not ends:
            return Response(HTTPStatus.NOT_FOUND, {}, b"no such page")
        return None

    transport = Meddler(cluster.transport, answer)
    async with cluster.manager(CONFIG, transport) as recording:
        await asyncio.sleep(10)
        assert requests(recording.writes) == []
        ends = True
        await asyncio.sleep(60)
        assert await reserved(cluster) == []


async def test_claims_are_counted_by_kind_and_requests_by_result() -> None:
    cluster = Cluster()
    add_template(cluster)
    add_claim(cluster)
    add_pod(cluster, "p", from_template())
    add_pod(cluster, "q", from_template("nic", "missing"))
    exactly = {"deviceClassName": "gpu.example.com", "adminAccess": True}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    cluster.add("ResourceClaimTemplate", "admin", API, spec={"spec": spec})
    add_pod(cluster, "r", from_template("monitor", "admin"))
    connections = Connections(cluster.transport, root_ca=ROOT_CA)
    async with run_manager(connections, cluster.clock, cluster.rng, CONFIG) as manager:
        await asyncio.sleep(1)
        found = sample(manager._registry)
    assert found == {
        ("creates_total", "success", "false"): 1.0,
        ("creates_total", "success", "true"): 1.0,
        ("resource_claims", "false", "false", "resource_claim_template"): 1.0,
        ("resource_claims", "false", "true", "resource_claim_template"): 1.0,
        ("resource_claims", "true", "false", ""): 1.0,
    }


def sample(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    prefix = "resourceclaim_controller_"
    return {
        (each.name.removeprefix(prefix), *each.labels.values()): each.value
        for family in registry.collect()
        for each in family.samples
        if each.name.startswith(prefix) and not each.name.endswith("_created")
    }


async def test_a_claim_whose_response_was_lost_is_not_created_twice() -> None:
    """The watch may be late, too: the claims are listed before another is created."""
    cluster = Cluster()
    add_template(cluster)
    add_pod(cluster, "p", from_template())
    lost, reads = 0, 0

    async def lose(request: Request) -> Response | None:
        nonlocal lost, reads
        reads += request.method == "GET" and request.path.endswith("/pods/p")
        if request.method == "POST" and request.path.endswith("claims") and not lost:
            lost += 1
            await cluster.transport.request(request)
            raise RequestTimeout(request.path)
        return None

    async with cluster.manager(CONFIG, Meddler(cluster.transport, lose)):
        await asyncio.sleep(30)
        (made,) = await claims(cluster)
        assert await status_names(cluster) == {"gpu": made}
    assert (lost, reads) == (1, 1)
