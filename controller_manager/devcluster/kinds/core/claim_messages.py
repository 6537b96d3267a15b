"""The protobuf messages of volume claims (api/core/v1/generated.proto)."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.kinds.volume_messages import VOLUME_MESSAGES
from controller_manager.devcluster.server.messages import Message

CLAIM_MESSAGES: Final[Mapping[str, Message]] = {
    **VOLUME_MESSAGES,
    "PersistentVolumeClaim": {
        1: "metadata:ObjectMeta",
        2: "spec:PersistentVolumeClaimSpec",
        3: "status:PersistentVolumeClaimStatus",
    },
    "PersistentVolumeClaimStatus": {
        1: "phase:str",
        2: "accessModes:[]str",
        3: "capacity:{}Quantity",
        4: "conditions:[]PersistentVolumeClaimCondition",
        5: "allocatedResources:{}Quantity",
        7: "allocatedResourceStatuses:{}str",
        8: "currentVolumeAttributesClassName:str",
        9: "modifyVolumeStatus:ModifyVolumeStatus",
    },
    "PersistentVolumeClaimCondition": {
        1: "type:str",
        2: "status:str",
        3: "lastProbeTime:Time",
        4: "lastTransitionTime:Time",
        5: "reason:str",
        6: "message:str",
    },
    "ModifyVolumeStatus": {1: "targetVolumeAttributesClassName:str", 2: "status:str"},
}
