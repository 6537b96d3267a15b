"""Pods get their claims to devices, on a cluster in memory and on virtual time."""

import asyncio
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import (
    DELETE_PROTECTION,
    RESOURCE_CLAIMS,
    ResourceClaim,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, PodGroup
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import RequestTimeout
from controller_manager.client.rest.transport import Response
from controller_manager.controllers.resource.resourceclaim.consumers import (
    of_group,
    pod_claim_name,
)
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import ROOT_CA, make_config, run_manager
from tests.controllers.hands import Before, Hands
from tests.controllers.scenarios import Scenario, scenarios

pytestmark = pytest.mark.looptime

REQUESTS: Final = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]
ALLOCATION: Final = {
    "devices": {
        "results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]
    }
}


def config(*, grouped: bool = False) -> Config:
    made = make_config(
        controllers=("resourceclaim-controller", "ttl"),
        use_service_account_credentials=True,
    )
    gates = FeatureGates({"DRAWorkloadResourceClaims": True})
    return replace(made, features=gates) if grouped else made


def _entries(claims: dict[str, str]) -> list[JSON]:
    """Return the claims of a pod: ``r`` names a claim, the others a template."""
    return [
        {
            "name": name,
            "resourceClaimName" if name == "r" else "resourceClaimTemplateName": of,
        }
        for name, of in claims.items()
    ]


class Claims(Hands):
    """A cluster with claims to devices."""

    def template(self, name: str = "t", **metadata: Any) -> None:
        spec = {"metadata": metadata, "spec": {"devices": {"requests": REQUESTS}}}
        self.put("resourceclaimtemplates", name, spec=spec)

    def pod(
        self,
        name: str,
        node: str = "",
        group: str = "",
        status: JSON | None = None,
        claims: dict[str, str] | None = None,
        **more: str,
    ) -> None:
        containers = [{"name": "c", "image": "app:v1"}]
        entries = _entries({**more, **(claims or {})})
        spec: JSON = {"containers": containers, "resourceClaims": entries}
        spec |= {"nodeName": node} if node else {}
        spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
        self.put(PODS, name, spec=spec, status=status)

    def group(self, **claims: str) -> None:
        policy: JSON = {"schedulingPolicy": {"basic": {}}}
        spec = {**policy, "resourceClaims": _entries(claims)}
        self.put(POD_GROUPS, "g", spec=spec)

    def add_claim(
        self, name: str = "c", *consumers: JSON, is_allocated: bool = True
    ) -> None:
        """Add a claim of a user; one that is allocated has the finalizer, too."""
        finalizers = [DELETE_PROTECTION, "example.com/hold"] if is_allocated else []
        allocation = {"allocation": ALLOCATION} if is_allocated else {}
        reserved = {"reservedFor": [*consumers]} if consumers else {}
        self.put(
            RESOURCE_CLAIMS,
            name,
            metadata={"finalizers": finalizers},
            spec={"devices": {"requests": REQUESTS}},
            status={**allocation, **reserved},
        )

    def add_full_claim(self, uid: str) -> None:
        """Add the claim "c" with 255 consumers besides the pod "old" of that uid."""
        kind = {"apiGroup": "example.com", "resource": "x"}
        others = [{**kind, "name": f"x{each}", "uid": str(each)} for each in range(255)]
        self.add_claim("c", *others, {"resource": "pods", "name": "old", "uid": uid})

    def allocate(self, name: str) -> None:
        self.edit(RESOURCE_CLAIMS, name, status={"allocation": ALLOCATION})

    def end_pod(self, name: str, phase: str = "Succeeded") -> None:
        self.edit(PODS, name, status={"phase": phase})

    def uid_of(self, name: str) -> str:
        return str(self.stored(PODS, name)["metadata"]["uid"])

    def has(self, name: str) -> bool:
        return name in self.names(RESOURCE_CLAIMS)

    def shapes(self) -> list[str]:
        """Return the names of all claims without their random ends."""
        return sorted(map(_shape, self.names(RESOURCE_CLAIMS)))

    def owners(self) -> list[list[str]]:
        metadata = [each["metadata"] for each in self.all(RESOURCE_CLAIMS)]
        return [
            [f"{one['kind']} {one['name']} {one['uid']}" for one in each]
            for each in (one.get("ownerReferences", ()) for one in metadata)
        ]

    def labels(self) -> list[JSON]:
        return [each["metadata"].get("labels") for each in self.all(RESOURCE_CLAIMS)]

    def pod_claims(self) -> list[str]:
        """Return for which entries of pods all claims are."""
        encoded = msgspec.json.encode(self.all(RESOURCE_CLAIMS))
        found = msgspec.json.decode(encoded, type=list[ResourceClaim])
        return sorted(str(pod_claim_name(each)) for each in found)

    def consumers(self, name: str = "c") -> list[JSON]:
        """Return for what a claim is reserved, without uids."""
        found = self.stored(RESOURCE_CLAIMS, name)["status"].get("reservedFor") or ()
        return [{k: each for k, each in one.items() if k != "uid"} for one in found]

    def reserved(self, name: str = "c") -> list[str]:
        return [each["name"] for each in self.consumers(name)]

    def last_reserved(self) -> str:
        return self.reserved()[-1]

    def is_allocated(self, name: str = "c") -> bool:
        return "allocation" in self.stored(RESOURCE_CLAIMS, name)["status"]

    def status_names(self, name: str = "p") -> dict[str, str | None]:
        """Return the claims that the status of a pod names, in their order."""
        status = self.stored(PODS, name).get("status", {})
        found = status.get("resourceClaimStatuses") or ()
        return {each["name"]: each.get("resourceClaimName") for each in found}

    def status_shapes(self) -> dict[str, str]:
        return {name: _shape(str(it)) for name, it in self.status_names().items()}

    def is_listed(self) -> bool:
        """Tell whether the status of the pod "p" names exactly the claims."""
        names = self.status_names().values()
        return sorted(map(str, names)) == self.names(RESOURCE_CLAIMS)

    def claim_of(self, entry: str, pod: str = "p") -> str | None:
        return self.status_names(pod)[entry]

    def claim_of_group(self, entry: str) -> str | None:
        found = msgspec.json.encode(self.stored(POD_GROUPS, "g"))
        group = msgspec.json.decode(found, type=PodGroup)
        return dict(of_group(group).status_names)[entry]


def _shape(name: str) -> str:
    start, dash, _ = name.rpartition("-")
    return start + dash if dash else name


@pytest.fixture
async def cluster() -> Claims:
    return Claims()


@scenarios("resource/resourceclaim")
async def test_pods_get_their_claims(scenario: Scenario) -> None:
    await scenario.play(Claims, config)


async def test_claims_are_counted_by_kind(cluster: Claims) -> None:
    cluster.template()
    cluster.add_claim()
    cluster.pod("p", gpu="t")
    cluster.pod("q", nic="missing")
    exactly = {"deviceClassName": "gpu.example.com", "adminAccess": True}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    templates = "resource.k8s.io/v1/resourceclaimtemplates"
    cluster.put(templates, "admin", spec={"spec": spec})
    cluster.pod("r", monitor="admin")
    connections = Connections(cluster.transport, root_ca=ROOT_CA)
    async with run_manager(
        connections, cluster.clock, cluster.rng, config()
    ) as manager:
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


async def test_a_lost_response_makes_no_second_claim(cluster: Claims) -> None:
    """The watch may be late, too: the claims are listed before another is created."""
    cluster.template()
    cluster.pod("p", gpu="t")

    async def lose() -> None:
        body = loses.requests[-1].body or b""
        await cluster.client.create_json(RESOURCE_CLAIMS, "default", body)
        raise RequestTimeout

    reads = Before(cluster, "GET", "/pods/p", lambda: None)
    loses = Before(cluster, "POST", "/resourceclaims", lose, inner=reads)
    async with cluster.manager(config(), loses):
        await asyncio.sleep(30)
        made = cluster.only(RESOURCE_CLAIMS)
        assert cluster.status_names() == {"gpu": made}
    assert (loses.seen, reads.seen) == (1, 1)


async def test_a_group_newer_than_the_cache_keeps_its_claim(cluster: Claims) -> None:
    """The cache may show an older group of the same name, after a change of leaders."""
    cluster.group()
    uids = ["newer"]

    def answer() -> Response:
        metadata = {"name": "g", "namespace": "default", "uid": uids[-1]}
        return Response(200, {}, msgspec.json.encode({"metadata": metadata}))

    cluster.add_claim(is_allocated=False)
    owner = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "name": "g",
        "uid": "newer",
        "controller": True,
    }
    cluster.edit(RESOURCE_CLAIMS, "c", metadata={"ownerReferences": [owner]})
    transport = Before(cluster, "GET", "/podgroups/g", answer, times=99)
    async with cluster.manager(config(grouped=True), transport) as recording:
        await asyncio.sleep(10)
        assert recording.writes == []
        uids.append("newest")
        cluster.edit(RESOURCE_CLAIMS, "c", metadata={"labels": {"a": "b"}})
        await asyncio.sleep(10)
    (write,) = recording.writes
    assert (write.method, write.path.rpartition("/")[2]) == ("DELETE", "c")
