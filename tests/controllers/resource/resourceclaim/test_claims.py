"""The body of a claim, its reservations, and their release: pure functions."""

from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod, PodResourceClaim
from controller_manager.api.dynamicresources.v1 import (
    DELETE_PROTECTION,
    Allocation,
    ClaimConsumer,
    ResourceClaim,
    ResourceClaimAnnotations,
    ResourceClaimMeta,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import PodGroup
from controller_manager.controllers.resource.resourceclaim.consumers import (
    claim_names,
    is_done,
    of_group,
    of_pod,
    shares,
    uses_claims,
)
from controller_manager.controllers.resource.resourceclaim.creation import (
    claim_body,
    generate_name,
    statuses_of,
)
from controller_manager.controllers.resource.resourceclaim.metrics import (
    has_admin_access,
    source_of,
)
from controller_manager.controllers.resource.resourceclaim.reservations import (
    NOTHING,
    Release,
    release,
    reserve,
)

DELETED: Final = "2026-01-01T00:00:00Z"
P_JSON: Final = {"resource": "pods", "name": "p", "uid": "1"}
Q_JSON: Final = {"resource": "pods", "name": "q", "uid": "2"}
GROUPS: Final = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
GROUP_JSON: Final = {**GROUPS, "name": "g", "uid": "3"}
P, Q, GROUP = msgspec.convert((P_JSON, Q_JSON, GROUP_JSON), list[ClaimConsumer])


def claim(
    *consumers: ClaimConsumer,
    allocated: bool = True,
    protected: bool = True,
    deleted: bool = False,
) -> ResourceClaim:
    return ResourceClaim(
        metadata=ResourceClaimMeta(
            name="c",
            finalizers=(DELETE_PROTECTION,) if protected else None,
            deletion_timestamp=DELETED if deleted else None,
        ),
        status=ResourceClaimStatus(
            allocation=Allocation() if allocated else None,
            reserved_for=consumers or None,
        ),
    )


@pytest.mark.parametrize(
    ("before", "gone", "expected"),
    [
        (claim(), "", NOTHING),
        (claim(P), "", NOTHING),
        (claim(P, Q), "1", Release({"reservedFor": [Q_JSON]})),
        (claim(P, GROUP), "1", Release({"reservedFor": [GROUP_JSON]})),
        (
            claim(P, Q),
            "12",
            Release({"reservedFor": None, "allocation": None}, drops_finalizer=True),
        ),
        (claim(P, protected=False), "1", Release({"reservedFor": None})),
        (claim(deleted=True), "", Release({"allocation": None}, drops_finalizer=True)),
        (claim(allocated=False, deleted=True), "", Release(drops_finalizer=True)),
        (claim(P, deleted=True), "", NOTHING),
        (claim(protected=False, deleted=True), "", NOTHING),
    ],
)
def test_a_claim_loses_consumers_that_are_gone(
    before: ResourceClaim, gone: str, expected: Release
) -> None:
    assert release(before, lambda each: each.uid in gone) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (claim(), {"reservedFor": [Q_JSON]}),
        (claim(P), {"reservedFor": [P_JSON, Q_JSON]}),
        (claim(P, Q), None),
        (claim(allocated=False), None),
        (claim(*[P] * 255), {"reservedFor": [*[P_JSON] * 255, Q_JSON]}),
        (claim(*[P] * 256), None),
        (claim(deleted=True), None),
    ],
)
def test_it_is_reserved_once(before: ResourceClaim, expected: JSON | None) -> None:
    assert reserve(before, Q) == expected


@pytest.mark.parametrize(
    ("consumer", "entry", "expected"),
    [
        ("web", "gpu", "web-gpu-"),
        ("w" * 40, "g" * 15, "w" * 40 + "-" + "g" * 15 + "-"),
        ("w" * 40, "g" * 16, "w" * 39 + "-" + "g" * 15),
        ("w" * 80, "g" * 20, "w" * 44 + "-" + "g" * 11),
        ("w" * 253, "g" * 63, "w" * 45 + "-" + "g" * 11),
        # A label must not begin with a hyphen: upstream asks for such a name for ever.
        ("w" * 43 + "." + "w" * 36, "g" * 20, "w" * 43 + "-" + "g" * 11),
    ],
)
def test_long_names_are_cut(consumer: str, entry: str, expected: str) -> None:
    assert generate_name(consumer, entry) == expected
    assert len(expected) + 5 <= 63


TEMPLATE: Final = msgspec.json.decode(
    b'{"spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}},'
    b' "spec": {"devices": {"new": 1}}}}',
    type=ResourceClaimTemplate,
)
BARE: Final = msgspec.json.decode(b'{"spec": {}}', type=ResourceClaimTemplate)
GPU: Final = {"name": "gpu", "resourceClaimTemplateName": "t"}
NIC: Final = {"name": "nic", "resourceClaimName": "n"}
ENTRY, DIRECT = msgspec.convert((GPU, NIC), list[PodResourceClaim])


def pod(
    *entries: JSON, node: str = "", phase: str = "", deleted: Any = None, **status: Any
) -> Pod:
    metadata = {"name": "p", "namespace": "ns", "uid": "1"}
    body = {
        "metadata": {**metadata, "deletionTimestamp": deleted},
        "spec": {"resourceClaims": entries or None, "nodeName": node},
        "status": {"phase": phase, **status},
    }
    return msgspec.convert(body, Pod)


def named(**claims: str | None) -> JSON:
    """Return the part of a pod's status that names claims."""
    found = [
        {"name": each, "resourceClaimName": claim} for each, claim in claims.items()
    ]
    return {"resourceClaimStatuses": found}


def group(*names: str) -> PodGroup:
    entries = [{"name": each, "resourceClaimTemplateName": "t"} for each in names]
    statuses = [{"name": "gpu", "resourceClaimName": "x"}]
    body = {
        "metadata": {"name": "g", "namespace": "ns", "uid": "3"},
        "spec": {"resourceClaims": entries},
        "status": {"resourceClaimStatuses": statuses},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=PodGroup)


def owner(api_version: str, kind: str, name: str, uid: str) -> JSON:
    reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
    return {**reference, "controller": True}


def test_a_claim_has_the_content_of_its_template() -> None:
    made = msgspec.json.decode(claim_body(of_pod(pod(GPU)), ENTRY, TEMPLATE))
    assert made == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": "p-gpu-",
            "labels": {"a": "b"},
            "annotations": {"x": "y", "resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [owner("v1", "Pod", "p", "1")],
        },
        "spec": {"devices": {"new": 1}},
    }


def test_a_claim_of_a_group_belongs_to_the_group() -> None:
    """A template may be empty."""
    made = msgspec.json.decode(claim_body(of_group(group("gpu")), ENTRY, BARE))
    assert made["metadata"] == {
        "generateName": "g-gpu-",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [owner("scheduling.k8s.io/v1alpha2", "PodGroup", "g", "3")],
    }


def test_a_status_names_all_claims_in_the_order_of_the_spec() -> None:
    """The claims may be known, new, or not needed."""
    entries = [{**GPU, "name": each} for each in ("a", "b", "c", "d")]
    consumer = of_pod(pod(*entries, NIC, **named(c=None, b="old")))
    assert statuses_of(consumer, {"a": "new"}) == [
        {"name": "a", "resourceClaimName": "new"},
        {"name": "b", "resourceClaimName": "old"},
        {"name": "c"},
    ]


EXTENDED: Final = {"resourceClaimName": "e"}


@pytest.mark.parametrize(
    ("user", "is_user", "names", "done"),
    [
        (pod(), False, [], False),
        (pod(NIC), True, ["n"], False),
        (pod(GPU), True, [], False),
        (pod(GPU, **named(gpu="x")), True, ["x"], False),
        (pod(GPU, **named(gpu=None)), True, [], False),
        (pod(extendedResourceClaimStatus=EXTENDED), True, ["e"], False),
        (pod(NIC, phase="Running", node="n"), True, ["n"], False),
        (pod(NIC, phase="Failed", node="n"), True, ["n"], True),
        (pod(NIC, deleted=DELETED), True, ["n"], True),
        (pod(NIC, deleted=DELETED, node="n"), True, ["n"], False),
    ],
)
def test_a_pod_uses_its_claims_until_it_is_done(
    user: Pod, names: list[str], *, is_user: bool, done: bool
) -> None:
    found = uses_claims(user), list(claim_names(user)), is_done(user)
    assert found == (is_user, names, done)


def test_a_group_shares_the_entries_that_are_equal() -> None:
    shared = of_group(group("gpu"))
    assert (shared.reference, dict(shared.status_names)) == (GROUP, {"gpu": "x"})
    other = PodResourceClaim(name="gpu", resource_claim_template_name="other")
    assert shares(shared, ENTRY) is True
    assert shares(shared, other) is shares(shared, DIRECT) is False
    assert shares(None, ENTRY) is False


@pytest.mark.parametrize(
    ("annotations", "source"),
    [
        (None, ""),
        (ResourceClaimAnnotations(), ""),
        (ResourceClaimAnnotations(pod_claim_name="gpu"), "resource_claim_template"),
        (ResourceClaimAnnotations(extended_resource_claim="true"), "extended_resource"),
        (ResourceClaimAnnotations(extended_resource_claim="false"), ""),
    ],
)
def test_a_claim_has_a_source(
    annotations: ResourceClaimAnnotations | None, source: str
) -> None:
    metadata = ResourceClaimMeta(annotations=annotations)
    assert source_of(ResourceClaim(metadata=metadata)) == source


@pytest.mark.parametrize(
    ("requests", "has"),
    [
        (b"[]", False),
        (b'[{"exactly": {}}]', False),
        (b'[{"exactly": {"adminAccess": false}}]', False),
        (b'[{"firstAvailable": [{}]}, {"exactly": {"adminAccess": true}}]', True),
    ],
)
def test_one_request_is_enough_for_admin_access(requests: bytes, *, has: bool) -> None:
    spec = msgspec.json.decode(
        b'{"devices": {"requests": %s}}' % requests, type=ResourceClaimSpec
    )
    assert has_admin_access(ResourceClaim(spec=spec)) is has
    assert has_admin_access(ResourceClaim()) is False
