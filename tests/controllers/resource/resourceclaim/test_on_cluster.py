"""Pods get their claims to devices, on a cluster in memory and on virtual time."""

import asyncio
from typing import Final

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS
from controller_manager.api.meta import OwnerReference
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import RequestTimeout
from controller_manager.client.rest.transport import Response
from tests.clusters import ROOT_CA, run_manager
from tests.controllers.hands import Before
from tests.controllers.responses import refusal

from .objects import CONFIG, Claims, direct, from_template, pod_reference, requests

pytestmark = pytest.mark.looptime

CLAIM: Final = "resourceclaims/c"
NOT_FOUND: Final = (
    'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
)


async def test_claims_are_created_from_templates_and_named_in_order() -> None:
    cluster = Claims(rbac=True)
    async with cluster.confined_manager(CONFIG) as recording:
        cluster.add_template(labels={"a": "b"}, annotations={"x": "y"})
        cluster.add_pod("p", from_template("nic"), direct(), from_template("gpu"))
        await asyncio.sleep(1)
        made, names = cluster.claims(), cluster.status_names()
        uid = cluster.uid_of("p")
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


async def test_a_deleted_claim_is_created_again_and_the_other_stays_in_the_status(
    cluster: Claims,
) -> None:
    """Upstream removes the other claim from the status, and adds it again, for ever."""
    cluster.add_template()
    cluster.add_pod("p", from_template("gpu"), from_template("nic"))
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        before = cluster.status_names()
        cluster.delete_claim(str(before["gpu"]))
        await asyncio.sleep(60)
        after, made = cluster.status_names(), cluster.claims()
    assert after["nic"] == before["nic"]
    assert after["gpu"] != before["gpu"]
    assert set(after.values()) == made.keys()
    assert requests(recording.writes)[3:] == [
        ("POST", "resourceclaims", 201),
        ("PATCH", "pods/p/status", 200),
    ]


async def test_a_pod_waits_for_its_template_and_an_event_reports_it(
    cluster: Claims,
) -> None:
    cluster.add_pod("p", from_template())
    async with cluster.manager(CONFIG):
        await asyncio.sleep(600)
        assert cluster.claims() == {}
        cluster.add_template()
        await asyncio.sleep(0.1)
        assert len(cluster.claims()) == 1
    why = "FailedResourceClaimCreation [resource_claim]: PodResourceClaim gpu"
    assert cluster.told() == [f"p Warning {why}: {NOT_FOUND}"]


async def test_a_claim_that_is_refused_is_tried_again_and_an_event_has_the_reason(
    cluster: Claims,
) -> None:
    """A quota may be full for a while."""
    error = refusal(403, "Forbidden", "full")
    refusing = Before(cluster, "POST", "/resourceclaims", lambda: error, times=2)
    cluster.add_template()
    cluster.add_pod("p", from_template())
    async with cluster.manager(CONFIG, refusing):
        await asyncio.sleep(10)
        assert len(cluster.claims()) == 1
    (told,) = cluster.told()
    assert told.endswith("PodResourceClaim gpu: create ResourceClaim : full")


async def test_a_claim_whose_name_could_not_be_written_is_not_created_twice(
    cluster: Claims,
) -> None:
    """The manager finds it by its owner, and so does the next manager."""
    error = refusal(500, "")
    cluster.add_template()
    cluster.add_pod("p", from_template())
    transport = Before(cluster, "PATCH", "p/status", lambda: error, times=99)
    async with cluster.manager(CONFIG, transport):
        await asyncio.sleep(30)
        assert len(cluster.claims()) == 1
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
    assert set(cluster.status_names().values()) == cluster.claims().keys()


async def test_a_claim_is_reserved_for_bound_pods_and_released_with_the_last() -> None:
    cluster = Claims(rbac=True)
    async with cluster.confined_manager(CONFIG) as recording:
        cluster.add_claim()
        cluster.add_pod("waiting", direct())
        for name in ("p", "q"):
            cluster.add_pod(name, direct(), nodeName="n")
            await asyncio.sleep(1)
        assert cluster.reserved() == ["p", "q"]
        cluster.leave("p")
        await asyncio.sleep(1)
        assert cluster.reserved() == ["q"]
        cluster.leave("q")
        await asyncio.sleep(1)
        claim = cluster.claims()["c"]
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
async def test_a_pod_that_has_ended_loses_its_claims_once(
    cluster: Claims, phase: str
) -> None:
    """Upstream creates, reserves and releases them again in a hot loop."""
    cluster.add_claim()
    cluster.add_template()
    cluster.add_pod("p", direct(), from_template(), nodeName="n")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        assert cluster.reserved() == ["p"]
        made = next(each for each in cluster.claims() if each != "c")
        del recording.writes[:]
        cluster.end("p", phase)
        await asyncio.sleep(3600)
        claim = cluster.claims()["c"]
        assert list(cluster.claims()) == ["c"]
    assert (claim.status.allocation, claim.status.reserved_for) == (None, None)
    assert sorted(requests(recording.writes)) == [
        ("DELETE", f"resourceclaims/{made}", 200),
        ("PATCH", CLAIM, 200),
        ("PATCH", f"{CLAIM}/status", 200),
    ]


async def test_consumers_that_were_deleted_while_no_process_led_are_released(
    cluster: Claims,
) -> None:
    cluster.add_pod("p", direct("other"))
    uid = cluster.uid_of("p")
    other = {"apiGroup": "example.com", "resource": "x", "name": "x", "uid": "3"}
    consumers = [pod_reference("gone", "1"), pod_reference("p", "2"), other]
    cluster.add_claim("c", *consumers, pod_reference("p", uid))
    cluster.add_claim("free", *consumers[:2])
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        found = cluster.claims()
    left = found["c"].status.reserved_for or ()
    assert [(each.name, each.uid) for each in left] == [("x", "3"), ("p", uid)]
    assert found["c"].status.allocation is not None
    assert found["free"].status.allocation is None


async def test_a_claim_without_consumers_stays_allocated_until_it_is_deleted(
    cluster: Claims,
) -> None:
    cluster.add_claim()
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(60)
        assert recording.writes == []
        cluster.delete_claim("c")
        await asyncio.sleep(1)
        claim = cluster.claims()["c"]
    assert claim.status.allocation is None
    assert claim.metadata.finalizers == ("example.com/hold",)
    assert requests(recording.writes) == [
        ("PATCH", f"{CLAIM}/status", 200),
        ("PATCH", CLAIM, 200),
    ]


async def test_a_deleted_claim_that_a_pod_uses_stays_until_the_pod_is_gone(
    cluster: Claims,
) -> None:
    cluster.add_claim()
    cluster.add_pod("p", direct(), nodeName="n")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        cluster.delete_claim("c")
        await asyncio.sleep(60)
        claim = cluster.claims()["c"]
        assert claim.status.allocation is not None
        assert cluster.reserved() == ["p"]
        cluster.leave("p")
        await asyncio.sleep(1)
        claim = cluster.claims()["c"]
    assert claim.metadata.finalizers == ("example.com/hold",)


async def test_the_claim_of_extended_resources_is_released_with_its_pod(
    cluster: Claims,
) -> None:
    status = {
        "extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []}
    }
    cluster.add_pod("p", nodeName="n", status=status)
    cluster.add_claim("c", pod_reference("p", cluster.uid_of("p")))
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        assert cluster.reserved() == ["p"]
        cluster.end("p")
        await asyncio.sleep(1)
        assert cluster.reserved() == []


async def test_a_claim_with_the_most_consumers_gets_no_further_request(
    cluster: Claims,
) -> None:
    """The next pod gets it when another has left; upstream's requests are refused."""
    cluster.add_pod("old", direct(), nodeName="n")
    others = [
        {
            "apiGroup": "example.com",
            "resource": "x",
            "name": f"x{number}",
            "uid": f"{number}",
        }
        for number in range(255)
    ]
    old = pod_reference("old", cluster.uid_of("old"))
    cluster.add_claim("c", *others, old)
    cluster.add_pod("new", direct(), nodeName="n")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(60)
        assert requests(recording.writes) == []
        cluster.leave("old")
        await asyncio.sleep(1)
        assert cluster.reserved()[-1] == "new"


async def test_a_scheduler_that_was_faster_is_not_overwritten(cluster: Claims) -> None:
    cluster.add_claim()
    cluster.add_pod("q", direct())
    uid = cluster.uid_of("q")
    first = {"reservedFor": [pod_reference("q", uid)]}
    reserves = Before(
        cluster, "PATCH", "", lambda: cluster.edit(RESOURCE_CLAIMS, "c", status=first)
    )
    cluster.add_pod("p", direct(), nodeName="n")
    async with cluster.manager(CONFIG, reserves):
        await asyncio.sleep(5)
        assert cluster.reserved() == ["q", "p"]


async def test_pods_that_share_a_claim_get_it_with_one_write_each(
    cluster: Claims,
) -> None:
    cluster.add_claim()
    async with cluster.manager(CONFIG) as recording:
        for number in range(60):
            cluster.add_pod(f"p{number}", direct(), nodeName="n")
        await asyncio.sleep(10)
        assert len(cluster.reserved()) == 60
    assert requests(recording.writes) == [("PATCH", f"{CLAIM}/status", 200)] * 60


async def test_pods_without_claims_cost_nothing(cluster: Claims) -> None:
    async with cluster.manager(CONFIG) as recording:
        for number in range(10):
            cluster.add_pod(f"p{number}", nodeName="n")
        await asyncio.sleep(1)
        cluster.end("p0")
        cluster.leave("p1")
        await asyncio.sleep(1)
        assert recording.writes == []


def answer_for_pod(cluster: Claims, uid: str) -> Before:
    body = {"metadata": {"name": "p", "namespace": "default", "uid": uid}}
    answer = Response(200, {}, msgspec.json.encode(body))
    return Before(cluster, "GET", "/pods/p", lambda: answer, times=99)


async def test_the_pod_of_a_stale_cache_gets_no_claim(cluster: Claims) -> None:
    cluster.add_template()
    cluster.add_pod("p", from_template(), nodeName="n")
    transport = answer_for_pod(cluster, "other")
    async with cluster.manager(CONFIG, transport):
        await asyncio.sleep(10)
        assert cluster.claims() == {}


async def test_a_claim_stays_reserved_for_a_pod_that_is_newer_than_the_cache(
    cluster: Claims,
) -> None:
    """Upstream releases it if the cache shows an older pod of the same name."""
    cluster.add_pod("p", direct("none"))
    cluster.add_claim("c", pod_reference("p", "newer"))
    transport = answer_for_pod(cluster, "newer")
    async with cluster.manager(CONFIG, transport) as recording:
        await asyncio.sleep(10)
        assert requests(recording.writes) == []


async def test_a_404_that_is_not_about_the_pod_releases_no_claim(
    cluster: Claims,
) -> None:
    cluster.add_claim("c", pod_reference("p", "1"))
    missing = Response(404, {}, b"no such page")
    transport = Before(cluster, "GET", "/pods/p", lambda: missing, times=99)
    async with cluster.manager(CONFIG, transport) as recording:
        await asyncio.sleep(10)
        assert requests(recording.writes) == []
        transport.times = 0
        await asyncio.sleep(60)
        assert cluster.reserved() == []


async def test_claims_are_counted_by_kind_and_requests_by_result(
    cluster: Claims,
) -> None:
    cluster.add_template()
    cluster.add_claim()
    cluster.add_pod("p", from_template())
    cluster.add_pod("q", from_template("nic", "missing"))
    exactly = {"deviceClassName": "gpu.example.com", "adminAccess": True}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    templates = "resource.k8s.io/v1/resourceclaimtemplates"
    cluster.put(templates, "admin", spec={"spec": spec})
    cluster.add_pod("r", from_template("monitor", "admin"))
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


async def test_a_claim_whose_response_was_lost_is_not_created_twice(
    cluster: Claims,
) -> None:
    """The watch may be late, too: the claims are listed before another is created."""
    cluster.add_template()
    cluster.add_pod("p", from_template())

    async def lose() -> None:
        body = loses.requests[-1].body or b""
        await cluster.client.create_json(RESOURCE_CLAIMS, "default", body)
        raise RequestTimeout

    reads = Before(cluster, "GET", "/pods/p", lambda: None)
    loses = Before(cluster, "POST", "/resourceclaims", lose, inner=reads)
    async with cluster.manager(CONFIG, loses):
        await asyncio.sleep(30)
        (made,) = cluster.claims()
        assert cluster.status_names() == {"gpu": made}
    assert (loses.seen, reads.seen) == (1, 1)
