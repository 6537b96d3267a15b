"""Complete types lack no field of the API, so that writing them loses nothing.

The truth is what kubernetes_asyncio generates from the API's own description.
"""

import importlib
import pkgutil
import re
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes_asyncio.client import models
from msgspec import Raw
from msgspec.structs import fields

from controller_manager import api
from controller_manager.api.meta import APIStruct, CompleteObject, Projection, Resource
from controller_manager.api.scalars import IntOrString

MODELS: Final = {
    "CertificateSigningRequest": "V1CertificateSigningRequest",
    "ClusterRole": "V1ClusterRole",
    "ClusterTrustBundle": "V1beta1ClusterTrustBundle",
    "ConfigMap": "V1ConfigMap",
    "ControllerRevision": "V1ControllerRevision",
    "CronJob": "V1CronJob",
    "DaemonSet": "V1DaemonSet",
    "Deployment": "V1Deployment",
    "EndpointSlice": "V1EndpointSlice",
    "Endpoints": "V1Endpoints",
    "Event": "CoreV1Event",
    "HorizontalPodAutoscaler": "V2HorizontalPodAutoscaler",
    "Job": "V1Job",
    "Lease": "V1Lease",
    "LeaseCandidate": "V1beta1LeaseCandidate",
    "Namespace": "V1Namespace",
    "PersistentVolume": "V1PersistentVolume",
    "PersistentVolumeClaim": "V1PersistentVolumeClaim",
    "PodDisruptionBudget": "V1PodDisruptionBudget",
    "PodGroup": "V1alpha2PodGroup",
    "ReplicaSet": "V1ReplicaSet",
    "ReplicationController": "V1ReplicationController",
    "ResourcePoolStatusRequest": "V1alpha3ResourcePoolStatusRequest",
    "ResourceQuota": "V1ResourceQuota",
    "Scale": "V1Scale",
    "Secret": "V1Secret",
    "ServiceAccount": "V1ServiceAccount",
    "ServiceCIDR": "V1ServiceCIDR",
    "StatefulSet": "V1StatefulSet",
    "StorageVersion": "V1alpha1StorageVersion",
    "StorageVersionMigration": "V1beta1StorageVersionMigration",
    "SelfSubjectAccessReview": "V1SelfSubjectAccessReview",
    "SubjectAccessReview": "V1SubjectAccessReview",
    "TokenRequest": "AuthenticationV1TokenRequest",
    "TokenReview": "V1TokenReview",
    "VolumeAttachment": "V1VolumeAttachment",
    "VolumeAttributesClass": "V1VolumeAttributesClass",
}
"""The model of each complete type."""

LEFT_OUT: Final = {"V1ObjectMeta.managedFields"}
"""The fields that complete types lack: a server keeps its own if a PUT lacks them."""

ZERO_SAYS_MORE: Final = {
    "CoreV1EndpointPort.appProtocol",
    "V1ConfigMap.immutable",
    "V1CronJobSpec.failedJobsHistoryLimit",
    "V1CronJobSpec.startingDeadlineSeconds",
    "V1CronJobSpec.successfulJobsHistoryLimit",
    "V1CronJobSpec.suspend",
    "V1CronJobSpec.timeZone",
    "V1DaemonSetSpec.revisionHistoryLimit",
    "V1DaemonSetStatus.collisionCount",
    "V1DeploymentSpec.progressDeadlineSeconds",
    "V1DeploymentSpec.replicas",
    "V1DeploymentSpec.revisionHistoryLimit",
    "V1DeploymentStatus.collisionCount",
    "V1DeploymentStatus.terminatingReplicas",
    "DiscoveryV1EndpointPort.appProtocol",
    "DiscoveryV1EndpointPort.name",
    "DiscoveryV1EndpointPort.port",
    "DiscoveryV1EndpointPort.protocol",
    "V1Endpoint.hostname",
    "V1Endpoint.nodeName",
    "V1Endpoint.zone",
    "V1EndpointAddress.nodeName",
    "V1EndpointConditions.ready",
    "V1EndpointConditions.serving",
    "V1EndpointConditions.terminating",
    "V1JobSpec.activeDeadlineSeconds",
    "V1JobSpec.backoffLimit",
    "V1JobSpec.backoffLimitPerIndex",
    "V1JobSpec.completionMode",
    "V1JobSpec.completions",
    "V1JobSpec.managedBy",
    "V1JobSpec.manualSelector",
    "V1JobSpec.maxFailedIndexes",
    "V1JobSpec.parallelism",
    "V1JobSpec.podReplacementPolicy",
    "V1JobSpec.suspend",
    "V1JobSpec.ttlSecondsAfterFinished",
    "V1JobStatus.failedIndexes",
    "V1JobStatus.ready",
    "V1JobStatus.terminating",
    "V1LeaseSpec.holderIdentity",
    "V1LeaseSpec.leaseDurationSeconds",
    "V1LeaseSpec.leaseTransitions",
    "V1LeaseSpec.preferredHolder",
    "V1LeaseSpec.strategy",
    "V1ObjectMeta.deletionGracePeriodSeconds",
    "V1OwnerReference.blockOwnerDeletion",
    "V1OwnerReference.controller",
    "V1PodFailurePolicyOnExitCodesRequirement.containerName",
    "V1ReplicaSetSpec.replicas",
    "V1ReplicaSetStatus.terminatingReplicas",
    "V1ReplicationControllerSpec.replicas",
    "V1RollingUpdateDaemonSet.maxSurge",
    "V1RollingUpdateDaemonSet.maxUnavailable",
    "V1RollingUpdateDeployment.maxSurge",
    "V1RollingUpdateDeployment.maxUnavailable",
    "V1RollingUpdateStatefulSetStrategy.maxUnavailable",
    "V1RollingUpdateStatefulSetStrategy.partition",
    "V1Secret.immutable",
    "V1ServiceAccount.automountServiceAccountToken",
    "V1StatefulSetSpec.replicas",
    "V1StatefulSetSpec.revisionHistoryLimit",
    "V1StatefulSetStatus.collisionCount",
    "V1SuccessPolicyRule.succeededCount",
    "V1SuccessPolicyRule.succeededIndexes",
    "V1TokenRequestSpec.expirationSeconds",
    "V1VolumeAttachmentSource.persistentVolumeName",
    "V1VolumeError.errorCode",
    "V1alpha1StorageVersionStatus.commonEncodingVersion",
    "V1alpha3PoolStatus.allocatedDevices",
    "V1alpha3PoolStatus.availableDevices",
    "V1alpha3PoolStatus.nodeName",
    "V1alpha3PoolStatus.resourceSliceCount",
    "V1alpha3PoolStatus.totalDevices",
    "V1alpha3PoolStatus.unavailableDevices",
    "V1alpha3PoolStatus.validationError",
    "V1alpha3ResourcePoolStatusRequestSpec.limit",
    "V1alpha3ResourcePoolStatusRequestSpec.poolName",
    "V1alpha3ResourcePoolStatusRequestStatus.poolCount",
}
"""Pointers of the Go types: 0, false and "" are values there, absence is another.

Everywhere else a zero and an absent field are the same to every client and server.
"""

SCALARS: Final = {"str": str, "int": int, "bool": bool, "datetime": str}


def modules() -> list[str]:
    found = pkgutil.walk_packages(api.__path__, f"{api.__name__}.")
    return [each.name for each in found]


def complete_types() -> dict[str, type[CompleteObject]]:
    for module in modules():
        importlib.import_module(module)
    return {
        each.__name__: each
        for each in CompleteObject.__subclasses__()
        if each.__module__.startswith("controller_manager.")
    }


COMPLETE: Final = complete_types()


def wire_fields(model: str) -> dict[str, str]:
    """Return the fields of a model, as they are written, with their types."""
    described = getattr(models, model)
    names = described.attribute_map
    return {names[key]: kind for key, kind in described.openapi_types.items()}


def element(kind: str) -> tuple[str, str]:
    """Return ``list``, ``dict`` or nothing, and the type of the content."""
    if matched := re.fullmatch(r"list\[(.+)\]", kind):
        return "list", matched[1]
    if matched := re.fullmatch(r"dict\(str, (.+)\)", kind):
        return "dict", matched[1]
    return "", kind


def without_none(ours: Any) -> Any:
    if get_origin(ours) not in (Union, UnionType):
        return ours
    present = tuple(each for each in get_args(ours) if each is not type(None))
    return Union[present]  # noqa: UP007 - put together at run time


def differences(ours: Any, theirs: str, where: str) -> list[str]:
    """Return the places where our type differs from a model's field."""
    ours = without_none(ours)
    if ours is Raw:
        return []
    outer, inner = element(theirs)
    if outer:
        container, of = get_origin(ours), get_args(ours)
        if container is not {"list": tuple, "dict": dict}[outer]:
            return [f"{where}: {ours} for {theirs}"]
        return differences(of[0 if outer == "list" else 1], inner, where)
    if theirs == "object":
        return [] if ours == IntOrString else [f"{where}: {ours} for {theirs}"]
    if theirs in SCALARS:
        return [] if ours is SCALARS[theirs] else [f"{where}: {ours} for {theirs}"]
    if not (isinstance(ours, type) and issubclass(ours, APIStruct)):
        return [f"{where}: {ours} for {theirs}"]
    return struct_differences(ours, theirs)


def struct_differences(ours: type[APIStruct], model: str) -> list[str]:
    theirs = {
        name: kind
        for name, kind in wire_fields(model).items()
        if f"{model}.{name}" not in LEFT_OUT
    }
    own = {field.encode_name: field.type for field in fields(ours)}
    found = [f"{model}.{name}: lacking" for name in theirs.keys() - own.keys()]
    found += [f"{model}.{name}: unknown" for name in own.keys() - theirs.keys()]
    for name in theirs.keys() & own.keys():
        found += differences(own[name], theirs[name], f"{model}.{name}")
    return found


def test_every_complete_type_has_a_model_to_be_compared_with() -> None:
    """A new one must be added to the table above."""
    assert MODELS.keys() == COMPLETE.keys()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_complete_type_has_every_field_of_its_model(name: str) -> None:
    assert struct_differences(COMPLETE[name], MODELS[name]) == []


def test_every_resource_is_of_a_complete_type_or_of_a_projection() -> None:
    """For any other type it would not be clear whether it may be written."""
    resources = {
        value
        for module in modules()
        for value in vars(importlib.import_module(module)).values()
        if isinstance(value, Resource)
    }
    assert len(resources) >= 12
    for resource in resources:
        sorts = [
            sort
            for sort in (CompleteObject, Projection)
            if issubclass(resource.type, sort)
        ]
        assert len(sorts) == 1, resource


def known_names() -> set[str]:
    """Return the names of all fields of all models, as they are written."""
    described = (getattr(models, name) for name in dir(models))
    maps = (getattr(each, "attribute_map", {}) for each in described)
    return {name for each in maps for name in each.values()}


def api_structs() -> set[type[APIStruct]]:
    """Return the types of the API, whole and in part."""
    return {
        value
        for module in modules()
        for value in vars(importlib.import_module(module)).values()
        if isinstance(value, type) and issubclass(value, APIStruct)
    }


def test_every_field_has_a_name_that_the_api_knows() -> None:
    """A field with a misspelled name is always empty.

    Names in camel case say little of words such as URL and IO. Annotations are no
    fields of models, and the models have no metrics.
    """
    known = known_names()
    unknown = {
        f"{struct.__name__}.{field.encode_name}"
        for struct in api_structs()
        if not struct.__name__.endswith(("Annotations", "Allocatable"))
        and "metrics" not in struct.__module__
        for field in fields(struct)
        if field.encode_name not in known
    }
    assert unknown == set()


TEXTS: Final = st.sampled_from(["", "a", "b/c", "ü"])
TIMES: Final = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z"])
NUMBERS: Final = st.integers(min_value=0, max_value=2**31)
JSON: Final = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner),
    max_leaves=4,
)
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "str": TEXTS,
    "int": NUMBERS,
    "bool": st.booleans(),
    # Go writes null for a time that is not set.
    "datetime": TIMES | st.none(),
    "object": NUMBERS | st.sampled_from(["25%", "0%"]),
    # Carried as bytes, so that fields of later versions are kept.
    "V1PodSpec": st.dictionaries(st.sampled_from(["containers", "new"]), JSON),
    "V1PersistentVolumeClaimSpec": st.dictionaries(TEXTS, JSON),
    "V1PersistentVolumeClaimStatus": st.dictionaries(TEXTS, JSON),
    "V1PersistentVolumeSpec": st.dictionaries(TEXTS, JSON),
    "V1PersistentVolumeStatus": st.dictionaries(TEXTS, JSON),
    "V1alpha2PodGroupSpec": st.dictionaries(TEXTS, JSON),
    "V1alpha2PodGroupStatus": st.dictionaries(TEXTS, JSON),
}


def values(kind: str) -> st.SearchStrategy[Any]:
    """Return a strategy for what a field of a type may hold on the wire."""
    outer, inner = element(kind)
    if outer == "list":
        return st.lists(st.deferred(lambda: values(inner)), max_size=2)
    if outer == "dict":
        return st.dictionaries(TEXTS, st.deferred(lambda: values(inner)), max_size=2)
    return VALUES[kind] if kind in VALUES else objects(kind)


def objects(model: str) -> st.SearchStrategy[dict[str, Any]]:
    optional = {
        name: values(kind)
        for name, kind in wire_fields(model).items()
        if f"{model}.{name}" not in LEFT_OUT
    }
    return st.fixed_dictionaries({}, optional=optional)


def meaning(value: Any, kind: str) -> Any:
    """Return an object without its empty fields."""
    outer, inner = element(kind)
    if outer == "list":
        return [meaning(each, inner) for each in value]
    if outer == "dict" or kind in VALUES:
        return value
    described = wire_fields(kind)
    return {
        name: meaning(each, described[name])
        for name, each in value.items()
        if each is not None
        and not (f"{kind}.{name}" not in ZERO_SAYS_MORE and is_zero(each))
    }


def is_zero(value: Any) -> bool:
    return isinstance(value, str | int) and not value


@pytest.mark.parametrize("name", sorted(MODELS))
@given(data=st.data())
def test_decoding_and_encoding_loses_nothing(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    wire = data.draw(objects(model))
    decoded = msgspec.json.decode(msgspec.json.encode(wire), type=COMPLETE[name])
    again = msgspec.json.decode(msgspec.json.encode(decoded))
    assert meaning(again, model) == meaning(wire, model)


def test_the_comparison_finds_what_a_type_lacks() -> None:
    """Otherwise the test above would prove nothing."""

    class Account(CompleteObject, frozen=True):
        secrets: tuple[str, ...] | None = None
        automount_service_account_token: int | None = None
        colour: str = ""

    assert sorted(struct_differences(Account, "V1ServiceAccount")) == [
        "V1ServiceAccount.automountServiceAccountToken: <class 'int'> for bool",
        "V1ServiceAccount.colour: unknown",
        "V1ServiceAccount.imagePullSecrets: lacking",
        "V1ServiceAccount.secrets: <class 'str'> for V1ObjectReference",
    ]
