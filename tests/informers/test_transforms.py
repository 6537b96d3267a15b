"""Cached objects are small: they share their equal parts."""

from typing import Any

import msgspec
import pytest

from controller_manager.api import meta
from controller_manager.api.core.v1 import NODES, PODS, Container, ContainerPort, Pod
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.informers.pods import PodTransform
from controller_manager.informers.reads import Reads
from controller_manager.informers.transforms import MonitorTransform, transform_for


def decoded(name: str, owner: str = "u1", ready: str = "True") -> Pod:
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": "web", "tier": "back"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "w", "uid": owner}],
        },
        "spec": {"nodeName": "node-1"},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": ready, "lastTransitionTime": name},
            ],
        },
    }
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


def test_equal_parts_become_the_same() -> None:
    share = PodTransform()
    one, two = decoded("a"), decoded("b")
    for pod in (one, two):
        share(pod)
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.owner_references is two.metadata.owner_references
    assert one.metadata.namespace is two.metadata.namespace
    assert one.spec.node_name is two.spec.node_name
    assert one.status.phase is two.status.phase


def test_the_affinity_of_a_pod_is_kept_until_it_has_a_node() -> None:
    """Each daemon pod has another one, by which its node is known before that."""
    field = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    affinity = {"nodeAffinity": required}
    pods = [
        msgspec.convert({"spec": {"affinity": affinity, "nodeName": node}}, Pod)
        for node in ("", "node-1")
    ]
    unbound = pods[0].spec.affinity
    for pod in pods:
        PodTransform()(pod)
    assert unbound is not None
    assert [pod.spec.affinity for pod in pods] == [unbound, None]


def test_parts_that_differ_stay_as_they_are() -> None:
    share = PodTransform()
    one, two = decoded("a"), decoded("b", owner="u2", ready="False")
    for pod in (one, two):
        share(pod)
    assert (one, two) == (decoded("a"), decoded("b", owner="u2", ready="False"))


def test_pods_keep_the_declared_fields_and_share_them() -> None:
    transform = transform_for(
        PODS, [Reads(PODS, "status.conditions[Ready]"), Reads(PODS, "spec.nodeName")]
    )
    one, two = decoded("a"), decoded("b", ready="False")
    assert transform is not None
    for pod in (one, two):
        transform(pod)
    assert one.spec.node_name is two.spec.node_name
    assert msgspec.to_builtins(two) == {
        "metadata": msgspec.to_builtins(decoded("b").metadata),
        "spec": {"nodeName": "node-1"},
        "status": {
            "conditions": (
                {"type": "Ready", "status": "False", "lastTransitionTime": "b"},
            )
        },
    }


def test_of_the_volumes_of_a_pod_only_its_claims_are_kept() -> None:
    """Most pods have others only, for config maps and tokens."""
    volumes: list[dict[str, Any]] = [
        {"name": "token", "projected": {"sources": []}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    ]
    transform = transform_for(PODS, [Reads(PODS, "spec.volumes")])
    assert transform is not None
    kept = []
    for number in (1, 3):
        body = msgspec.json.encode({"spec": {"volumes": volumes[:number]}})
        pod = msgspec.json.decode(body, type=Pod)
        transform(pod)
        kept.append(msgspec.json.decode(msgspec.json.encode(pod.spec)))
    assert kept == [{}, {"volumes": volumes[1:]}]


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        ((None, "s0", "s0"), ("data",)),
        (("s0", None, None), ("data",)),
        (("s0", "s0", None), ("data",)),
        (("s0", "s1", None), ("data", "token")),
        ((None, "s0", "s1"), ("data", "token")),
    ],
)
def test_a_pod_with_several_labels_keeps_its_mounts(
    labels: tuple[str | None, str | None, str | None], kept: tuple[str, ...]
) -> None:
    """It may mount any of its volumes with two of them."""
    contexts: list[Any] = [
        {} if each is None else {"securityContext": {"seLinuxOptions": {"level": each}}}
        for each in labels
    ]
    mounts = [{"name": "data"}, {"name": "token"}]
    one, two = ({**each, "volumeMounts": mounts} for each in contexts[1:])
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}
    spec = {
        **contexts[0],
        "containers": [one],
        "ephemeralContainers": [two],
        "volumes": [data, {"name": "token", "projected": {}}],
    }
    pod = msgspec.convert({"spec": spec}, Pod)
    PodTransform()(pod)
    mounted = [
        tuple(mount.name for mount in each.volume_mounts or ())
        for containers in (pod.spec.containers, pod.spec.ephemeral_containers)
        for each in containers or ()
    ]
    assert mounted == [kept, kept]
    assert [each.name for each in pod.spec.volumes or ()] == ["data"]


def test_pods_of_one_owner_share_their_ephemeral_volumes() -> None:
    transform = transform_for(PODS, [Reads(PODS, "spec.volumes")])
    assert transform is not None
    pods = []
    for size in ("1Gi", "1Gi", "2Gi"):
        spec = {"resources": {"requests": {"storage": size}}}
        volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
        body = msgspec.json.encode({"spec": {"volumes": [volume]}})
        pods.append(msgspec.json.decode(body, type=Pod))
        transform(pods[-1])
    first, second, third = (each.spec.volumes for each in pods)
    assert first is second
    assert first != third


def partial(name: str) -> meta.PartialObject:
    owners = (meta.OwnerReference(kind="ReplicaSet", name="w", uid="u1"),)
    return meta.PartialObject(
        metadata=meta.PartialMetadata(
            name=name,
            namespace="default",
            labels={"app": "web"},
            creation_timestamp="2026-01-01T00:00:00Z",
            owner_references=owners,
        )
    )


def test_containers_keep_named_ports_and_are_shared_among_pods_of_an_owner() -> None:
    def pod(name: str, port: int) -> Pod:
        named = {"name": "http", "containerPort": port, "protocol": "TCP"}
        unnamed = {"containerPort": 1, "protocol": "TCP"}
        containers = [{"ports": [unnamed, named]}, {"ports": [unnamed]}]
        metadata = {"name": name, "ownerReferences": [{"uid": "u1"}]}
        body = {"metadata": metadata, "spec": {"containers": containers}}
        decoded = msgspec.json.decode(msgspec.json.encode(body), type=Pod)
        share(decoded)
        return decoded

    share = PodTransform()
    old, new, twin = pod("a", 80), pod("b", 81), pod("c", 81)
    assert new.spec.containers is twin.spec.containers
    assert old.spec.containers == (
        Container(
            ports=(ContainerPort(name="http", container_port=80, protocol="TCP"),)
        ),
        Container(),
    )


def test_endpoints_share_what_most_of_them_have_in_common() -> None:
    """A slice is as before; only its parts are the same objects."""
    target = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "u"}
    body = {
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.1.0.1"],
                "conditions": {"ready": True},
                "nodeName": "n1",
                "zone": "z",
                "targetRef": target,
            },
            {"addresses": ["10.1.0.2"], "conditions": {"ready": True}},
        ],
    }
    encoded = msgspec.json.encode(body)
    share = transform_for(ENDPOINT_SLICES, [])
    assert share is not None
    one, two = (msgspec.json.decode(encoded, type=EndpointSlice) for _ in range(2))
    share(one)
    share(two)
    assert one == two == msgspec.json.decode(encoded, type=EndpointSlice)
    (first, bare), (second, _) = one.endpoints or (), two.endpoints or ()
    assert first.conditions is second.conditions is bare.conditions
    assert first.node_name is second.node_name
    assert first.zone is second.zone
    assert first.target_ref is not None
    assert second.target_ref is not None
    assert first.target_ref.namespace is second.target_ref.namespace


def test_resources_of_a_status_are_kept_while_they_differ_from_the_spec() -> None:
    def kept(in_use: str, allocated: str) -> list[object]:
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        status = {
            "name": "c",
            "resources": {"requests": {"cpu": in_use}},
            "allocatedResources": {"cpu": allocated},
        }
        other = {"name": "unknown", "resources": {"requests": {"cpu": "1"}}}
        body = {
            "metadata": {"name": "p"},
            "spec": {"containers": [container]},
            "status": {"containerStatuses": [status, other]},
        }
        pod = msgspec.convert(body, Pod)
        PodTransform()(pod)
        statuses = pod.status.container_statuses or ()
        return [each.name for each in statuses if each.resources is not None]

    assert kept("1", "1") == ["unknown"]
    assert kept("2", "1") == ["c", "unknown"]
    assert kept("1", "2") == ["c", "unknown"]


@pytest.mark.parametrize("reason", ["Deferred", "Infeasible"])
def test_resources_of_a_status_are_kept_while_a_resize_is_pending(reason: str) -> None:
    """If the node refuses it, the status alone says what each container has.

    So all containers are kept, those of equal amounts too, and the pod's own status;
    also if no controller reads the condition itself.
    """
    requests = {"requests": {"cpu": "1"}}
    in_use = {**requests, "limits": {}}
    container_status = {"name": "c", "resources": in_use}
    container_status["allocatedResources"] = requests["requests"]
    condition = {"type": "PodResizePending", "status": "True", "reason": reason}
    body = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "resources": in_use}],
            "initContainers": [{"name": "c", "resources": in_use}],
        },
        "status": {
            "resources": requests,
            "allocatedResources": requests["requests"],
            "conditions": [condition],
            "containerStatuses": [container_status],
            "initContainerStatuses": [container_status],
        },
    }
    paths = ("spec", "status.containerStatuses", "status.initContainerStatuses")
    reads = Reads(
        PODS, *paths, "status.resources", "status.allocatedResources", "status.phase"
    )
    transform = transform_for(PODS, [reads])
    assert transform is not None
    pod, kept = msgspec.convert(body, Pod), msgspec.convert(body, Pod)
    transform(kept)
    expected = msgspec.structs.replace(pod.status, conditions=None)
    assert kept.status == expected


@pytest.mark.parametrize(("namespaces", "is_kept"), [(["a"], True), ([], False)])
def test_of_a_pod_with_a_node_only_an_affinity_to_other_namespaces_is_kept(
    namespaces: list[str], is_kept: bool
) -> None:
    terms = [{"namespaces": namespaces}]
    affinity = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    }
    body = {"metadata": {}, "spec": {"nodeName": "n", "affinity": affinity}}
    pod = msgspec.convert(body, Pod)
    PodTransform()(pod)
    assert (pod.spec.affinity is not None) is is_kept


def test_monitors_keep_only_the_identity_and_owners_of_objects() -> None:
    """Metadata-only informers of controllers keep all metadata."""
    resource = meta.Resource(
        "", "v1", "pods", "Pod", meta.PartialObject, metadata_only=True
    )
    transform = transform_for(resource, ())
    kept, monitored = partial("a"), partial("b")
    assert transform is not None
    transform(kept)
    MonitorTransform()(monitored)
    assert kept == partial("a")
    whole = partial("b").metadata
    assert monitored.metadata == msgspec.structs.replace(
        whole, labels=None, creation_timestamp=None
    )


def test_other_objects_that_are_read_whole_have_no_transform() -> None:
    assert transform_for(NODES, ()) is None
