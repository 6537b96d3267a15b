"""Protobuf, as far as kubectl insists on it.

Typed clients send their objects so (``kubectl create deployment``). The
messages here are those that kubectl itself creates; a field that is not in the
table is refused by name, never dropped. Answers are JSON, which they accept.
"""

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from controller_manager.api.times import format_time

JSON = dict[str, Any]

MAGIC: Final = b"k8s\x00"
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """A message that cannot be decoded."""


# The wire


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a message; raises ProtobufError."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            msg = f"wire type {wire} is not supported"
            raise ProtobufError(msg)
        if position + size > len(data):
            msg = "unexpected end of message"
            raise ProtobufError(msg)
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            msg = "unexpected end of message"
            raise ProtobufError(msg)
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return result, position


def write_varint(value: int) -> bytes:
    """Return a number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_bytes(number: int, value: bytes) -> bytes:
    """Return a field of type string, bytes or message."""
    return write_varint(number << 3 | _BYTES) + write_varint(len(value)) + value


def write_text(number: int, value: str) -> bytes:
    """Return a field of type string, nothing if it is empty."""
    return write_bytes(number, value.encode()) if value else b""


# Messages
#
# A field is "name:type": str, int, bool, bytes (shown as base64), a message,
# "[]" before it for lists, "{}" for maps from strings.

_MESSAGES: Final[Mapping[str, Mapping[int, str]]] = {
    "Time": {1: "seconds:int", 2: "nanos:int"},
    "Quantity": {1: "string:str"},
    "IntOrString": {1: "type:int", 2: "intVal:int", 3: "strVal:str"},
    "ObjectMeta": {
        1: "name:str",
        2: "generateName:str",
        3: "namespace:str",
        4: "selfLink:str",
        5: "uid:str",
        6: "resourceVersion:str",
        7: "generation:int",
        8: "creationTimestamp:Time",
        9: "deletionTimestamp:Time",
        10: "deletionGracePeriodSeconds:int",
        11: "labels:{}str",
        12: "annotations:{}str",
        13: "ownerReferences:[]OwnerReference",
        14: "finalizers:[]str",
    },
    "OwnerReference": {
        1: "kind:str",
        3: "name:str",
        4: "uid:str",
        5: "apiVersion:str",
        6: "controller:bool",
        7: "blockOwnerDeletion:bool",
    },
    "LabelSelector": {
        1: "matchLabels:{}str",
        2: "matchExpressions:[]LabelSelectorRequirement",
    },
    "LabelSelectorRequirement": {1: "key:str", 2: "operator:str", 3: "values:[]str"},
    "Deployment": {
        1: "metadata:ObjectMeta",
        2: "spec:DeploymentSpec",
        3: "status:DeploymentStatus",
    },
    "DeploymentSpec": {
        1: "replicas:int",
        2: "selector:LabelSelector",
        3: "template:PodTemplateSpec",
        4: "strategy:DeploymentStrategy",
        5: "minReadySeconds:int",
        6: "revisionHistoryLimit:int",
        7: "paused:bool",
        9: "progressDeadlineSeconds:int",
    },
    "DeploymentStrategy": {1: "type:str", 2: "rollingUpdate:RollingUpdateDeployment"},
    "RollingUpdateDeployment": {
        1: "maxUnavailable:IntOrString",
        2: "maxSurge:IntOrString",
    },
    "DeploymentStatus": {
        1: "observedGeneration:int",
        2: "replicas:int",
        3: "updatedReplicas:int",
        4: "availableReplicas:int",
        5: "unavailableReplicas:int",
        7: "readyReplicas:int",
        8: "collisionCount:int",
        9: "terminatingReplicas:int",
    },
    "Job": {1: "metadata:ObjectMeta", 2: "spec:JobSpec", 3: "status:JobStatus"},
    "JobStatus": {
        4: "active:int",
        5: "succeeded:int",
        6: "failed:int",
        7: "completedIndexes:str",
    },
    "JobSpec": {
        1: "parallelism:int",
        2: "completions:int",
        3: "activeDeadlineSeconds:int",
        4: "selector:LabelSelector",
        5: "manualSelector:bool",
        6: "template:PodTemplateSpec",
        7: "backoffLimit:int",
        8: "ttlSecondsAfterFinished:int",
        9: "completionMode:str",
        10: "suspend:bool",
    },
    "CronJob": {
        1: "metadata:ObjectMeta",
        2: "spec:CronJobSpec",
        3: "status:CronJobStatus",
    },
    "CronJobStatus": {},
    "CronJobSpec": {
        1: "schedule:str",
        2: "startingDeadlineSeconds:int",
        3: "concurrencyPolicy:str",
        4: "suspend:bool",
        5: "jobTemplate:JobTemplateSpec",
        6: "successfulJobsHistoryLimit:int",
        7: "failedJobsHistoryLimit:int",
        8: "timeZone:str",
    },
    "JobTemplateSpec": {1: "metadata:ObjectMeta", 2: "spec:JobSpec"},
    "PodDisruptionBudget": {
        1: "metadata:ObjectMeta",
        2: "spec:PodDisruptionBudgetSpec",
        3: "status:PodDisruptionBudgetStatus",
    },
    "PodDisruptionBudgetSpec": {
        1: "minAvailable:IntOrString",
        2: "selector:LabelSelector",
        3: "maxUnavailable:IntOrString",
        4: "unhealthyPodEvictionPolicy:str",
    },
    "PodDisruptionBudgetStatus": {
        1: "observedGeneration:int",
        3: "disruptionsAllowed:int",
        4: "currentHealthy:int",
        5: "desiredHealthy:int",
        6: "expectedPods:int",
    },
    "Role": {1: "metadata:ObjectMeta", 2: "rules:[]PolicyRule"},
    "ClusterRole": {1: "metadata:ObjectMeta", 2: "rules:[]PolicyRule"},
    "PolicyRule": {
        1: "verbs:[]str",
        2: "apiGroups:[]str",
        3: "resources:[]str",
        4: "resourceNames:[]str",
        5: "nonResourceURLs:[]str",
    },
    "RoleBinding": {
        1: "metadata:ObjectMeta",
        2: "subjects:[]Subject",
        3: "roleRef:RoleRef",
    },
    "ClusterRoleBinding": {
        1: "metadata:ObjectMeta",
        2: "subjects:[]Subject",
        3: "roleRef:RoleRef",
    },
    "Subject": {1: "kind:str", 2: "apiGroup:str", 3: "name:str", 4: "namespace:str"},
    "RoleRef": {1: "apiGroup:str", 2: "kind:str", 3: "name:str"},
    "PodTemplateSpec": {1: "metadata:ObjectMeta", 2: "spec:PodSpec"},
    "Pod": {1: "metadata:ObjectMeta", 2: "spec:PodSpec", 3: "status:PodStatus"},
    "PodStatus": {1: "phase:str", 3: "message:str", 4: "reason:str", 9: "qosClass:str"},
    "PodSpec": {
        2: "containers:[]Container",
        3: "restartPolicy:str",
        4: "terminationGracePeriodSeconds:int",
        5: "activeDeadlineSeconds:int",
        6: "dnsPolicy:str",
        7: "nodeSelector:{}str",
        8: "serviceAccountName:str",
        9: "serviceAccount:str",
        10: "nodeName:str",
        11: "hostNetwork:bool",
        12: "hostPID:bool",
        13: "hostIPC:bool",
        14: "securityContext:PodSecurityContext",
        16: "hostname:str",
        17: "subdomain:str",
        19: "schedulerName:str",
        20: "initContainers:[]Container",
        24: "priorityClassName:str",
        30: "enableServiceLinks:bool",
    },
    "PodSecurityContext": {},
    "Container": {
        1: "name:str",
        2: "image:str",
        3: "command:[]str",
        4: "args:[]str",
        5: "workingDir:str",
        6: "ports:[]ContainerPort",
        7: "env:[]EnvVar",
        8: "resources:ResourceRequirements",
        13: "terminationMessagePath:str",
        14: "imagePullPolicy:str",
        16: "stdin:bool",
        17: "stdinOnce:bool",
        18: "tty:bool",
        20: "terminationMessagePolicy:str",
    },
    "ContainerPort": {
        1: "name:str",
        2: "hostPort:int",
        3: "containerPort:int",
        4: "protocol:str",
        5: "hostIP:str",
    },
    "EnvVar": {1: "name:str", 2: "value:str"},
    "ResourceRequirements": {1: "limits:{}Quantity", 2: "requests:{}Quantity"},
    "ConfigMap": {
        1: "metadata:ObjectMeta",
        2: "data:{}str",
        3: "binaryData:{}bytes",
        4: "immutable:bool",
    },
    "Secret": {
        1: "metadata:ObjectMeta",
        2: "data:{}bytes",
        3: "type:str",
        4: "stringData:{}str",
        5: "immutable:bool",
    },
    "Namespace": {
        1: "metadata:ObjectMeta",
        2: "spec:NamespaceSpec",
        3: "status:NamespaceStatus",
    },
    "NamespaceSpec": {1: "finalizers:[]str"},
    "NamespaceStatus": {1: "phase:str"},
    "ServiceAccount": {
        1: "metadata:ObjectMeta",
        4: "automountServiceAccountToken:bool",
    },
    "ResourceQuota": {
        1: "metadata:ObjectMeta",
        2: "spec:ResourceQuotaSpec",
        3: "status:ResourceQuotaStatus",
    },
    "ResourceQuotaSpec": {1: "hard:{}Quantity", 2: "scopes:[]str"},
    "ResourceQuotaStatus": {1: "hard:{}Quantity", 2: "used:{}Quantity"},
    "Service": {
        1: "metadata:ObjectMeta",
        2: "spec:ServiceSpec",
        3: "status:ServiceStatus",
    },
    "ServiceSpec": {
        1: "ports:[]ServicePort",
        2: "selector:{}str",
        3: "clusterIP:str",
        4: "type:str",
        5: "externalIPs:[]str",
        7: "sessionAffinity:str",
        8: "loadBalancerIP:str",
        10: "externalName:str",
        11: "externalTrafficPolicy:str",
        12: "healthCheckNodePort:int",
        13: "publishNotReadyAddresses:bool",
        17: "ipFamilyPolicy:str",
        18: "clusterIPs:[]str",
        19: "ipFamilies:[]str",
        22: "internalTrafficPolicy:str",
    },
    "ServicePort": {
        1: "name:str",
        2: "protocol:str",
        3: "port:int",
        4: "targetPort:IntOrString",
        5: "nodePort:int",
        6: "appProtocol:str",
    },
    "ServiceStatus": {1: "loadBalancer:LoadBalancerStatus"},
    "LoadBalancerStatus": {},
    "TokenRequest": {
        1: "metadata:ObjectMeta",
        2: "spec:TokenRequestSpec",
        3: "status:TokenRequestStatus",
    },
    "TokenRequestSpec": {1: "audiences:[]str", 4: "expirationSeconds:int"},
    "TokenRequestStatus": {1: "token:str", 2: "expirationTimestamp:Time"},
    "SelfSubjectAccessReview": {
        1: "metadata:ObjectMeta",
        2: "spec:SelfSubjectAccessReviewSpec",
        3: "status:SubjectAccessReviewStatus",
    },
    "SelfSubjectAccessReviewSpec": {
        1: "resourceAttributes:ResourceAttributes",
        2: "nonResourceAttributes:NonResourceAttributes",
    },
    "ResourceAttributes": {
        1: "namespace:str",
        2: "verb:str",
        3: "group:str",
        4: "version:str",
        5: "resource:str",
        6: "subresource:str",
        7: "name:str",
    },
    "NonResourceAttributes": {1: "path:str", 2: "verb:str"},
    "SubjectAccessReviewStatus": {
        1: "allowed:bool",
        2: "reason:str",
        3: "evaluationError:str",
        4: "denied:bool",
    },
    "Eviction": {1: "metadata:ObjectMeta", 2: "deleteOptions:DeleteOptions"},
    "DeleteOptions": {
        1: "gracePeriodSeconds:int",
        2: "preconditions:Preconditions",
        3: "orphanDependents:bool",
        4: "propagationPolicy:str",
        5: "dryRun:[]str",
        6: "ignoreStoreReadErrorWithClusterBreakingPotential:bool",
    },
    "Preconditions": {1: "uid:str", 2: "resourceVersion:str"},
}


def decode_protobuf(body: bytes) -> JSON:
    """Return the object in a body, as its JSON would be; raises ProtobufError."""
    if not body.startswith(MAGIC):
        msg = "the body does not begin with the magic number of Kubernetes' protobuf"
        raise ProtobufError(msg)
    envelope = dict(read_fields(body[len(MAGIC) :]))
    meta = dict(read_fields(_as_bytes(envelope.get(1, b""))))
    kind = _as_bytes(meta.get(2, b"")).decode()
    obj = _message(kind, _as_bytes(envelope.get(2, b"")))
    version = _as_bytes(meta.get(1, b"")).decode()
    return {"apiVersion": version, "kind": kind, **obj}


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        msg = "a message was expected, not a number"
        raise ProtobufError(msg)
    return value


def _message(name: str, data: bytes) -> Any:
    table = _MESSAGES.get(name)
    if table is None:
        msg = f"{name} can be sent as JSON only"
        raise ProtobufError(msg)
    obj: JSON = {}
    for number, value in read_fields(data):
        if number not in table:
            msg = f"field {number} of {name} can be sent as JSON only"
            raise ProtobufError(msg)
        _set(obj, table[number], value)
    match name:
        case "Time":
            return _time(obj)
        case "Quantity":
            return obj.get("string", "0")
        case "IntOrString":
            return obj.get("strVal", "") if obj.get("type") else obj.get("intVal", 0)
    return obj


def _time(obj: JSON) -> str | None:
    # Go's zero time is sent as a negative number of seconds, or not at all.
    seconds = obj.get("seconds", 0)
    return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else None


def _set(obj: JSON, field: str, value: int | bytes) -> None:
    name, _, kind = field.partition(":")
    if kind.startswith("[]"):
        obj.setdefault(name, []).append(_scalar(kind[2:], value))
    elif kind.startswith("{}"):
        entry = dict(read_fields(_as_bytes(value)))
        key = _as_bytes(entry.get(1, b"")).decode()
        obj.setdefault(name, {})[key] = _scalar(kind[2:], entry.get(2, b""))
    else:
        obj[name] = _scalar(kind, value)


def _scalar(kind: str, value: int | bytes) -> Any:
    match kind:
        case "int" if isinstance(value, int):
            return value - (1 << 64) if value >> 63 else value
        case "bool" if isinstance(value, int):
            return bool(value)
        case "str":
            return _as_bytes(value).decode()
        case "bytes":
            return base64.b64encode(_as_bytes(value)).decode()
    return _message(kind, _as_bytes(value))
