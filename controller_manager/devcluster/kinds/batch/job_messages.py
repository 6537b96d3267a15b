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
    },
    "JobTemplateSpec": {1: "metadata:ObjectMeta", 2: "spec:JobSpec"},
}
