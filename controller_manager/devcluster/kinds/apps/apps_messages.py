"""The protobuf messages of workloads (api/apps/v1/generated.proto)."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.kinds.core.claim_messages import CLAIM_MESSAGES
from controller_manager.devcluster.kinds.pod_messages import POD_MESSAGES
from controller_manager.devcluster.server.messages import Message

_CONDITION: Final = {
    1: "type:str",
    2: "status:str",
    3: "lastTransitionTime:Time",
    4: "reason:str",
    5: "message:str",
}

REPLICA_SET_MESSAGES: Final[Mapping[str, Message]] = {
    **POD_MESSAGES,
    "ReplicaSet": {
        1: "metadata:ObjectMeta",
        2: "spec:ReplicaSetSpec",
        3: "status:ReplicaSetStatus",
    },
    "ReplicaSetSpec": {
        1: "replicas:int",
        2: "selector:LabelSelector",
        3: "template:PodTemplateSpec",
        4: "minReadySeconds:int",
    },
    "ReplicaSetStatus": {
        1: "replicas:int",
        2: "fullyLabeledReplicas:int",
        3: "observedGeneration:int",
        4: "readyReplicas:int",
        5: "availableReplicas:int",
        6: "conditions:[]ReplicaSetCondition",
        7: "terminatingReplicas:int",
    },
    "ReplicaSetCondition": _CONDITION,
}

DAEMON_SET_MESSAGES: Final[Mapping[str, Message]] = {
    **POD_MESSAGES,
    "DaemonSet": {
        1: "metadata:ObjectMeta",
        2: "spec:DaemonSetSpec",
        3: "status:DaemonSetStatus",
    },
    "DaemonSetSpec": {
        1: "selector:LabelSelector",
        2: "template:PodTemplateSpec",
        3: "updateStrategy:DaemonSetUpdateStrategy",
        4: "minReadySeconds:int",
        6: "revisionHistoryLimit:int",
    },
    "DaemonSetUpdateStrategy": {
        1: "type:str",
        2: "rollingUpdate:RollingUpdateDaemonSet",
    },
    "RollingUpdateDaemonSet": {
        1: "maxUnavailable:IntOrString",
        2: "maxSurge:IntOrString",
    },
    "DaemonSetStatus": {
        1: "currentNumberScheduled:int",
        2: "numberMisscheduled:int",
        3: "desiredNumberScheduled:int",
        4: "numberReady:int",
        5: "observedGeneration:int",
        6: "updatedNumberScheduled:int",
        7: "numberAvailable:int",
        8: "numberUnavailable:int",
        9: "collisionCount:int",
        10: "conditions:[]DaemonSetCondition",
    },
    "DaemonSetCondition": _CONDITION,
}

STATEFUL_SET_MESSAGES: Final[Mapping[str, Message]] = {
    **POD_MESSAGES,
    **CLAIM_MESSAGES,
    "StatefulSet": {
        1: "metadata:ObjectMeta",
        2: "spec:StatefulSetSpec",
        3: "status:StatefulSetStatus",
    },
    "StatefulSetSpec": {
        1: "replicas:int",
        2: "selector:LabelSelector",
        3: "template:PodTemplateSpec",
        4: "volumeClaimTemplates:[]PersistentVolumeClaim",
        5: "serviceName:str",
        6: "podManagementPolicy:str",
        7: "updateStrategy:StatefulSetUpdateStrategy",
        8: "revisionHistoryLimit:int",
        9: "minReadySeconds:int",
        10: (
            "persistentVolumeClaimRetentionPolicy:"
            "StatefulSetPersistentVolumeClaimRetentionPolicy"
        ),
        11: "ordinals:StatefulSetOrdinals",
    },
    "StatefulSetUpdateStrategy": {
        1: "type:str",
        2: "rollingUpdate:RollingUpdateStatefulSetStrategy",
    },
    "RollingUpdateStatefulSetStrategy": {
        1: "partition:int",
        2: "maxUnavailable:IntOrString",
    },
    "StatefulSetPersistentVolumeClaimRetentionPolicy": {
        1: "whenDeleted:str",
        2: "whenScaled:str",
    },
    "StatefulSetOrdinals": {1: "start:int"},
    "StatefulSetStatus": {
        1: "observedGeneration:int",
        2: "replicas:int",
        3: "readyReplicas:int",
        4: "currentReplicas:int",
        5: "updatedReplicas:int",
        6: "currentRevision:str",
        7: "updateRevision:str",
        9: "collisionCount:int",
        10: "conditions:[]StatefulSetCondition",
        11: "availableReplicas:int",
    },
    "StatefulSetCondition": _CONDITION,
}
