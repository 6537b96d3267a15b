"""States of deleted objects in which the nearest answer would be a wrong one."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NAMESPACES, PODS
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import NOW, Given, before, chains, explained, named

pytestmark = pytest.mark.looptime

FOREGROUND = "foregroundDeletion"


def deleted(name: str, *finalizers: str, **more: Any) -> dict[str, Any]:
    """Return the metadata of an object that was deleted five minutes ago."""
    times = {"deletionTimestamp": before(5), "finalizers": list(finalizers)}
    return named(name, **times, **more)


def owned_by(name: str) -> list[dict[str, Any]]:
    return [{"uid": f"uid-of-{name}", "name": name, "blockOwnerDeletion": True}]


async def test_owners_of_each_other_are_no_endless_chain(cluster: Cluster) -> None:
    """Anybody who may create objects can make such a pair."""
    sets = [
        {"metadata": deleted(name, FOREGROUND, ownerReferences=owned_by(other))}
        for name, other in (("a", "b"), ("b", "a"))
    ]
    web = {"metadata": deleted("web", FOREGROUND)}
    sets[0]["metadata"]["ownerReferences"] += owned_by("web")
    found = await explained(cluster, DEPLOYMENTS, web, Given(replicasets=sets))
    held = ("HeldByFinalizer", State.STUCK)
    blocked = ("BlockedByDependent", State.STUCK)
    end: list[Any] = [(*held, [])]
    assert chains(found.causes) == [
        (*held, [(*blocked, [(*held, [(*blocked, [(*held, [(*blocked, end)])])])])])
    ]


async def test_dependents_block_only_the_finalizer_of_the_garbage_collector(
    cluster: Cluster,
) -> None:
    """Another finalizer is held by a controller of its own, so it is a second cause."""
    web = {"metadata": deleted("web", "example.com/audit", FOREGROUND)}
    pods = [{"metadata": named("web-x", ownerReferences=owned_by("web"))}]
    found = await explained(cluster, DEPLOYMENTS, web, Given(pods=pods))
    assert [each.what for each in found.causes] == [
        (
            "the finalizer example.com/audit holds it: the controller of example.com "
            "has not removed it"
        ),
        (
            "the finalizer foregroundDeletion holds it: the garbage collector deletes "
            "its dependents first"
        ),
    ]
    assert [len(each.because) for each in found.causes] == [0, 1]


@pytest.mark.parametrize(
    "plural",
    ["deployments", "statefulsets", "daemonsets", "services", "persistentvolumeclaims"],
)
async def test_an_owner_may_have_dependents_of_many_kinds(
    cluster: Cluster, plural: str
) -> None:
    """Operators own deployments, services and claims."""
    web = {"metadata": deleted("web", FOREGROUND)}
    child = {"metadata": deleted("child", "x.io/y", ownerReferences=owned_by("web"))}
    objects: Any = {plural: [child]}
    found = await explained(cluster, DEPLOYMENTS, web, Given(**objects))
    (held,) = found.causes
    assert [(each.code, each.object.name) for each in held.because] == [
        ("BlockedByDependent", "child")
    ]


@pytest.mark.parametrize(
    ("parts", "field", "what"),
    [
        (
            {"finalizers": ["controller.example.com/namespace-auth"]},
            "metadata.finalizers",
            (
                "the finalizer controller.example.com/namespace-auth holds it: the "
                "controller of controller.example.com has not removed it"
            ),
        ),
        (
            {"spec": {"finalizers": ["example.org/origin"]}},
            "spec.finalizers",
            (
                "the finalizer example.org/origin holds it: the controller of "
                "example.org has not removed it"
            ),
        ),
    ],
)
async def test_an_empty_namespace_is_held_by_finalizers_of_others(
    cluster: Cluster, parts: dict[str, Any], field: str, what: str
) -> None:
    """The namespace controller has done its work, so it is not to blame."""
    old = {
        "metadata": deleted("old", *parts.get("finalizers", ())),
        "spec": parts.get("spec", {}),
        "status": {
            "conditions": [
                {"type": "NamespaceContentRemaining", "status": "False"},
                {"type": "NamespaceDeletionDiscoveryFailure", "status": "False"},
            ]
        },
    }
    found = await explained(cluster, NAMESPACES, old)
    assert [(each.code, each.field, each.what) for each in found.causes] == [
        ("HeldByFinalizer", field, what)
    ]


@pytest.mark.parametrize(
    ("grace", "phase", "code"),
    [
        (3600, "Running", "Terminating"),
        (0, "Running", "HeldByFinalizer"),
        (3600, "Succeeded", "HeldByFinalizer"),
    ],
)
async def test_a_finalizer_does_not_hold_a_pod_that_still_ends(
    cluster: Cluster, grace: int, phase: str, code: str
) -> None:
    """The job controller waits for the end, and not the end for the job controller."""
    metadata = named(
        "web",
        deletionTimestamp="2026-01-01T00:59:00Z",
        deletionGracePeriodSeconds=grace,
        finalizers=["batch.kubernetes.io/job-tracking"],
    )
    body = {
        "metadata": metadata,
        "spec": {"nodeName": "node-0"},
        "status": {"phase": phase},
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    node = {"metadata": {"name": "node-0"}, "status": {"conditions": [ready]}}
    found = await explained(cluster, PODS, body, Given(nodes=[node]))
    assert chains(found.causes) == [(code, State.PROGRESSING, [])]


def user(name: str, node: str = "node-0", **metadata: Any) -> dict[str, Any]:
    """Return a pod that mounts the claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return {
        "metadata": named(name, **metadata),
        "spec": {"nodeName": node, "volumes": [volume]},
        "status": {"phase": "Running"},
    }


HELD = "the finalizer kubernetes.io/pvc-protection holds it"


@pytest.mark.parametrize(
    ("pods", "what", "below"),
    [
        (
            [user("web-1"), user("web-0")],
            f"{HELD}: pods still use the claim",
            [("ClaimInUse", "the pod web-0 uses the claim until it is gone", 2)],
        ),
        ([user("web-0", node="")], f"{HELD}, although no pod uses the claim", []),
        ([], f"{HELD}, although no pod uses the claim", []),
    ],
)
async def test_the_pods_that_keep_a_claim_are_named(
    cluster: Cluster, pods: list[Any], what: str, below: list[Any]
) -> None:
    claim = {"metadata": deleted("data", "kubernetes.io/pvc-protection")}
    found = await explained(cluster, CLAIMS, claim, Given(pods=pods))
    (held,) = found.causes
    assert (held.state, held.what) == (State.STUCK, what)
    assert [(each.code, each.what, each.count) for each in held.because] == below
    assert bool(held.remedy) is not bool(below)
