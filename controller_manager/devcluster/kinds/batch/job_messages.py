"""The protobuf messages that jobs and cron jobs share."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.kinds.pod_messages import POD_MESSAGES
from controller_manager.devcluster.server.messages import Message

JOB_MESSAGES: Final[Mapping[str, Message]] = {
    **POD_MESSAGES,
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
        11: "podFailurePolicy:PodFailurePolicy",
        12: "backoffLimitPerIndex:int",
        13: "maxFailedIndexes:int",
        14: "podReplacementPolicy:str",
        15: "managedBy:str",
        16: "successPolicy:SuccessPolicy",
    },
    "PodFailurePolicy": {1: "rules:[]PodFailurePolicyRule"},
    "PodFailurePolicyRule": {
        1: "action:str",
        2: "onExitCodes:PodFailurePolicyOnExitCodes",
        3: "onPodConditions:[]PodFailurePolicyOnPodConditions",
    },
    "PodFailurePolicyOnExitCodes": {
        1: "containerName:str",
        2: "operator:str",
        3: "values:[]int",
    },
    "PodFailurePolicyOnPodConditions": {1: "type:str", 2: "status:str"},
    "SuccessPolicy": {1: "rules:[]SuccessPolicyRule"},
    "SuccessPolicyRule": {1: "succeededIndexes:str", 2: "succeededCount:int"},
    "JobTemplateSpec": {1: "metadata:ObjectMeta", 2: "spec:JobSpec"},
}
