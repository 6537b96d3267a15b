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

ODD_MODELS: Final = {
    "ClusterTrustBundle": "V1beta1ClusterTrustBundle",
    "Event": "CoreV1Event",
    "HorizontalPodAutoscaler": "V2HorizontalPodAutoscaler",
    "LeaseCandidate": "V1beta1LeaseCandidate",
    "PodGroup": "V1alpha2PodGroup",
    "ResourcePoolStatusRequest": "V1alpha3ResourcePoolStatusRequest",
    "StorageVersion": "V1alpha1StorageVersion",
    "StorageVersionMigration": "V1beta1StorageVersionMigration",
    "TokenRequest": "AuthenticationV1TokenRequest",
}

LEFT_OUT: Final = {"V1ObjectMeta.managedFields"}
"""The fields that complete types lack: a server keeps its own if a PUT lacks them."""

ZERO_SAYS_MORE: Final = {
    f"{model}.{name}"
    for model, *names in map(
        str.split,
        """CoreV1EndpointPort appProtocol
V1ConfigMap immutable
V1CronJobSpec failedJobsHistoryLimit startingDeadlineSeconds
V1CronJobSpec successfulJobsHistoryLimit suspend timeZone
V1DaemonSetSpec revisionHistoryLimit
V1DaemonSetStatus collisionCount
V1DeploymentSpec progressDeadlineSeconds replicas revisionHistoryLimit
V1DeploymentStatus collisionCount terminatingReplicas
DiscoveryV1EndpointPort appProtocol name port protocol
V1Endpoint hostname nodeName zone
V1EndpointAddress nodeName
V1EndpointConditions ready serving terminating
V1JobSpec activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode
V1JobSpec completions managedBy manualSelector maxFailedIndexes parallelism
V1JobSpec podReplacementPolicy suspend ttlSecondsAfterFinished
V1JobStatus failedIndexes ready terminating
V1LeaseSpec holderIdentity leaseDurationSeconds leaseTransitions preferredHolder
V1LeaseSpec strategy
V1ObjectMeta deletionGracePeriodSeconds
V1OwnerReference blockOwnerDeletion controller
V1PodFailurePolicyOnExitCodesRequirement containerName
V1ReplicaSetSpec replicas
V1ReplicaSetStatus terminatingReplicas
V1ReplicationControllerSpec replicas
V1RollingUpdateDaemonSet maxSurge maxUnavailable
V1RollingUpdateDeployment maxSurge maxUnavailable
V1RollingUpdateStatefulSetStrategy maxUnavailable partition
V1Secret immutable
V1ServiceAccount automountServiceAccountToken
V1StatefulSetSpec replicas revisionHistoryLimit
V1StatefulSetStatus collisionCount
V1SuccessPolicyRule succeededCount succeededIndexes
V1TokenRequestSpec expirationSeconds
V1VolumeAttachmentSource persistentVolumeName
V1VolumeError errorCode
V1alpha1StorageVersionStatus commonEncodingVersion
V1alpha3PoolStatus allocatedDevices availableDevices nodeName resourceSliceCount
V1alpha3PoolStatus totalDevices unavailableDevices validationError
V1alpha3ResourcePoolStatusRequestSpec limit poolName
V1alpha3ResourcePoolStatusRequestStatus poolCount""".splitlines(),
    )
    for name in names
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
MODELS: Final = {name: ODD_MODELS.get(name, f"V1{name}") for name in COMPLETE}


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
