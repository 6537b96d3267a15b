"""Owners whose new objects admission changes, so that they do not recognise them."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.meta import AnyResource
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import (
    NOW,
    Chain,
    Given,
    before,
    chains,
    event,
    explained,
    named,
)

pytestmark = pytest.mark.looptime

LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
NODE = {"metadata": {"name": "node-0"}, "status": {"conditions": [READY]}}


def template(image: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {**LABELS, **labels}},
        "spec": {"containers": [{"name": "app", "image": image}]},
    }


def owner(changed: int = 30, **status: Any) -> dict[str, Any]:
    """Return an owner whose template was changed some minutes ago."""
    fields = {
        "manager": "kubectl",
        "operation": "Apply",
        "time": before(changed),
        "fieldsV1": {"f:spec": {"f:template": {}}},
    }
    return {
        "metadata": named("web", generation=1, labels=LABELS, managedFields=[fields]),
        "spec": {"replicas": 1, "selector": SELECTOR, "template": template("web:1")},
        "status": {"observedGeneration": 1, **status},
    }


def replica_set(number: int, image: str, minutes: int) -> dict[str, Any]:
    reference = {"kind": "Deployment", "name": "web", "uid": "uid-of-web"}
    metadata = named(
        f"web-{number}",
        generation=1,
        labels=LABELS,
        ownerReferences=[{**reference, "controller": True}],
    )
    return {
        "metadata": {**metadata, "creationTimestamp": before(minutes)},
        "spec": {
            "replicas": 0,
            "selector": SELECTOR,
            "template": template(image, **{"pod-template-hash": str(number)}),
        },
        "status": {"observedGeneration": 1},
    }


MUTATED: Chain = ("ReplicaSetMutated", State.STUCK, [])
MADE_NEXT: Chain = ("NoReplicaSet", State.PROGRESSING, [])


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        # Admission sets the same image each time, or another one each time.
        ([replica_set(each, "mirror/web:1", 20) for each in range(30)], [MUTATED]),
        ([replica_set(each, f"web@{each}", 20) for each in range(30)], [MUTATED]),
        # These are equal although the spec was changed after them.
        ([replica_set(each, "mirror/web:1", 40) for each in range(3)], [MUTATED]),
        # A history of templates, and the next one was applied just now.
        ([replica_set(each, f"web:{each + 2}", 40) for each in range(10)], [MADE_NEXT]),
        ([replica_set(1, "mirror/web:1", 20)], [MADE_NEXT]),
    ],
)
async def test_a_deployment_does_not_recognise_replica_sets_that_something_changes(
    cluster: Cluster, sets: list[Any], expected: list[Chain]
) -> None:
    """The Go manager makes dozens of them, and no condition says so."""
    found = await explained(cluster, DEPLOYMENTS, owner(), Given(replicasets=sets))
    assert chains(found.causes) == expected


async def test_the_field_that_something_changes_is_named(cluster: Cluster) -> None:
    sets = [replica_set(each, "mirror/web:1", 20) for each in range(24)]
    found = await explained(cluster, DEPLOYMENTS, owner(), Given(replicasets=sets))
    (cause,) = found.causes
    field = "spec.template.spec.containers[0].image"
    assert (cause.field, cause.since, cause.what) == (
        field,
        before(20),
        (
            "24 replica sets were made of the current template, and the deployment "
            f"recognises none of them: admission has changed {field} of each"
        ),
    )


@pytest.mark.parametrize(("minutes", "expected"), [(5, [MUTATED]), (40, [MADE_NEXT])])
async def test_an_event_about_a_changed_replica_set_counts_until_the_spec_changes(
    cluster: Cluster, minutes: int, expected: list[Chain]
) -> None:
    about = {"kind": "Deployment", "name": "web", "uid": "uid-of-web"}
    told = event(
        "ReplicaSetMutated", "Admission has changed x.", before(minutes), **about
    )
    server = Given(events=[told], replicasets=[replica_set(1, "mirror/web:1", minutes)])
    found = await explained(cluster, DEPLOYMENTS, owner(), server)
    assert chains(found.causes) == expected


def revision(number: int, image: str) -> dict[str, Any]:
    reference = {"kind": "DaemonSet", "name": "web", "uid": "uid-of-web"}
    references = [{**reference, "controller": True}]
    return {
        "metadata": named(f"web-{number}", ownerReferences=references),
        "data": {"spec": {"template": template(image)}},
        "revision": number,
    }


COUNTS: dict[str, Any] = {
    "desiredNumberScheduled": 0,
    "currentRevision": "a",
    "updateRevision": "a",
}


@pytest.mark.parametrize("resource", [DAEMON_SETS, STATEFUL_SETS])
@pytest.mark.parametrize(
    ("images", "events", "is_mutated"),
    [
        (["a"] * 9, [], True),
        ([str(each) for each in range(9)], [], False),
        (["a"], [5], True),
        (["a"], [25], False),
    ],
)
async def test_a_set_does_not_recognise_revisions_that_something_changes(
    cluster: Cluster,
    resource: AnyResource,
    images: list[str],
    events: list[int],
    *,
    is_mutated: bool,
) -> None:
    """An event that does not follow again shows that admission changes no more."""
    about = {"kind": resource.kind, "name": "web", "uid": "uid-of-web"}
    server = Given(
        nodes=[NODE],
        controllerrevisions=[revision(*each) for each in enumerate(images)],
        events=[
            event("RevisionMutated", "x", before(each), **about) for each in events
        ],
    )
    body = owner(collisionCount=len(images), **COUNTS)
    found = await explained(cluster, resource, body, server)
    codes = [each.code for each in found.causes]
    assert ("RevisionMutated" in codes) is is_mutated
