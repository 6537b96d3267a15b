"""The protobuf messages of a pod's volumes (api/core/v1/generated.proto).

The sources of single storage systems are missing: clients can send such pods as JSON.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.messages import Message

_PROJECTED: Final[Mapping[str, Message]] = {
    "ProjectedVolumeSource": {1: "sources:[]VolumeProjection", 2: "defaultMode:int"},
    "VolumeProjection": {
        1: "secret:ItemsProjection",
        2: "downwardAPI:DownwardAPIProjection",
        3: "configMap:ItemsProjection",
        4: "serviceAccountToken:ServiceAccountTokenProjection",
    },
    "ItemsProjection": {
        1: ":+LocalObjectReference",
        2: "items:[]KeyToPath",
        4: "optional:bool",
    },
    "DownwardAPIProjection": {1: "items:[]DownwardAPIVolumeFile"},
    "ServiceAccountTokenProjection": {
        1: "audience:str",
        2: "expirationSeconds:int",
        3: "path:str",
    },
}

_CLAIMS: Final[Mapping[str, Message]] = {
    "EphemeralVolumeSource": {1: "volumeClaimTemplate:PersistentVolumeClaimTemplate"},
    "PersistentVolumeClaimTemplate": {
        1: "metadata:ObjectMeta",
        2: "spec:PersistentVolumeClaimSpec",
    },
    "PersistentVolumeClaimSpec": {
        1: "accessModes:[]str",
        2: "resources:ResourceRequirements",
        3: "volumeName:str",
        4: "selector:LabelSelector",
        5: "storageClassName:str",
        6: "volumeMode:str",
        7: "dataSource:TypedReference",
        8: "dataSourceRef:TypedReference",
        9: "volumeAttributesClassName:str",
    },
    "TypedReference": {
        1: "apiGroup:str",
        2: "kind:str",
        3: "name:str",
        4: "namespace:str",
    },
}

VOLUME_MESSAGES: Final[Mapping[str, Message]] = {
    **_CLAIMS,
    **_PROJECTED,
    "Volume": {1: "name:str", 2: ":+VolumeSource"},
    "VolumeSource": {
        1: "hostPath:HostPathVolumeSource",
        2: "emptyDir:EmptyDirVolumeSource",
        6: "secret:SecretVolumeSource",
        7: "nfs:NFSVolumeSource",
        10: "persistentVolumeClaim:PersistentVolumeClaimVolumeSource",
        16: "downwardAPI:DownwardAPIVolumeSource",
        19: "configMap:ConfigMapVolumeSource",
        26: "projected:ProjectedVolumeSource",
        28: "csi:CSIVolumeSource",
        29: "ephemeral:EphemeralVolumeSource",
        30: "image:ImageVolumeSource",
    },
    "ConfigMapVolumeSource": {
        1: ":+LocalObjectReference",
        2: "items:[]KeyToPath",
        3: "defaultMode:int",
        4: "optional:bool",
    },
    "CSIVolumeSource": {
        1: "driver:str",
        2: "readOnly:bool",
        3: "fsType:str",
        4: "volumeAttributes:{}str",
        5: "nodePublishSecretRef:LocalObjectReference",
    },
    "DownwardAPIVolumeSource": {
        1: "items:[]DownwardAPIVolumeFile",
        2: "defaultMode:int",
    },
    "DownwardAPIVolumeFile": {
        1: "path:str",
        2: "fieldRef:ObjectFieldSelector",
        3: "resourceFieldRef:ResourceFieldSelector",
        4: "mode:int",
    },
    "EmptyDirVolumeSource": {1: "medium:str", 2: "sizeLimit:Quantity"},
    "HostPathVolumeSource": {1: "path:str", 2: "type:str"},
    "ImageVolumeSource": {1: "reference:str", 2: "pullPolicy:str"},
    "KeyToPath": {1: "key:str", 2: "path:str", 3: "mode:int"},
    "NFSVolumeSource": {1: "server:str", 2: "path:str", 3: "readOnly:bool"},
    "PersistentVolumeClaimVolumeSource": {1: "claimName:str", 2: "readOnly:bool"},
    "SecretVolumeSource": {
        1: "secretName:str",
        2: "items:[]KeyToPath",
        3: "defaultMode:int",
        4: "optional:bool",
    },
}
