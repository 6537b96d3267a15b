"""The protobuf messages of a container (api/core/v1/generated.proto)."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.messages import Message

_PROBES: Final[Mapping[str, Message]] = {
    "Probe": {
        1: ":+Handler",
        2: "initialDelaySeconds:int",
        3: "timeoutSeconds:int",
        4: "periodSeconds:int",
        5: "successThreshold:int",
        6: "failureThreshold:int",
        7: "terminationGracePeriodSeconds:int",
    },
    "Handler": {
        1: "exec:ExecAction",
        2: "httpGet:HTTPGetAction",
        3: "tcpSocket:TCPSocketAction",
        4: "grpc:GRPCAction",
    },
    "Lifecycle": {
        1: "postStart:LifecycleHandler",
        2: "preStop:LifecycleHandler",
        3: "stopSignal:str",
    },
    "LifecycleHandler": {
        1: "exec:ExecAction",
        2: "httpGet:HTTPGetAction",
        3: "tcpSocket:TCPSocketAction",
        4: "sleep:SleepAction",
    },
    "ExecAction": {1: "command:[]str"},
    "HTTPGetAction": {
        1: "path:str",
        2: "port:IntOrString",
        3: "host:str",
        4: "scheme:str",
        5: "httpHeaders:[]HTTPHeader",
    },
    "HTTPHeader": {1: "name:str", 2: "value:str"},
    "TCPSocketAction": {1: "port:IntOrString", 2: "host:str"},
    "GRPCAction": {1: "port:int", 2: "service:str"},
    "SleepAction": {1: "seconds:int"},
}

_ENVIRONMENT: Final[Mapping[str, Message]] = {
    "EnvFromSource": {
        1: "prefix:str",
        2: "configMapRef:OptionalReference",
        3: "secretRef:OptionalReference",
    },
    "OptionalReference": {1: ":+LocalObjectReference", 2: "optional:bool"},
    "EnvVar": {1: "name:str", 2: "value:str", 3: "valueFrom:EnvVarSource"},
    "EnvVarSource": {
        1: "fieldRef:ObjectFieldSelector",
        2: "resourceFieldRef:ResourceFieldSelector",
        3: "configMapKeyRef:KeySelector",
        4: "secretKeyRef:KeySelector",
    },
    "KeySelector": {1: ":+LocalObjectReference", 2: "key:str", 3: "optional:bool"},
    "LocalObjectReference": {1: "name:str"},
    "ObjectFieldSelector": {1: "apiVersion:str", 2: "fieldPath:str"},
    "ResourceFieldSelector": {
        1: "containerName:str",
        2: "resource:str",
        3: "divisor:Quantity",
    },
}

_SECURITY: Final[Mapping[str, Message]] = {
    "SecurityContext": {
        1: "capabilities:Capabilities",
        2: "privileged:bool",
        3: "seLinuxOptions:SELinuxOptions",
        4: "runAsUser:int",
        5: "runAsNonRoot:bool",
        6: "readOnlyRootFilesystem:bool",
        7: "allowPrivilegeEscalation:bool",
        8: "runAsGroup:int",
        9: "procMount:str",
        11: "seccompProfile:SeccompProfile",
        12: "appArmorProfile:AppArmorProfile",
    },
    "Capabilities": {1: "add:[]str", 2: "drop:[]str"},
    "SELinuxOptions": {1: "user:str", 2: "role:str", 3: "type:str", 4: "level:str"},
    "SeccompProfile": {1: "type:str", 2: "localhostProfile:str"},
    "AppArmorProfile": {1: "type:str", 2: "localhostProfile:str"},
}

CONTAINER_MESSAGES: Final[Mapping[str, Message]] = {
    **_ENVIRONMENT,
    **_PROBES,
    **_SECURITY,
    "Container": {
        1: "name:str",
        2: "image:str",
        3: "command:[]str",
        4: "args:[]str",
        5: "workingDir:str",
        6: "ports:[]ContainerPort",
        7: "env:[]EnvVar",
        8: "resources:ResourceRequirements",
        9: "volumeMounts:[]VolumeMount",
        10: "livenessProbe:Probe",
        11: "readinessProbe:Probe",
        12: "lifecycle:Lifecycle",
        13: "terminationMessagePath:str",
        14: "imagePullPolicy:str",
        15: "securityContext:SecurityContext",
        16: "stdin:bool",
        17: "stdinOnce:bool",
        18: "tty:bool",
        19: "envFrom:[]EnvFromSource",
        20: "terminationMessagePolicy:str",
        21: "volumeDevices:[]VolumeDevice",
        22: "startupProbe:Probe",
        23: "resizePolicy:[]ContainerResizePolicy",
        24: "restartPolicy:str",
        25: "restartPolicyRules:[]ContainerRestartRule",
    },
    "ContainerPort": {
        1: "name:str",
        2: "hostPort:int",
        3: "containerPort:int",
        4: "protocol:str",
        5: "hostIP:str",
    },
    "ContainerResizePolicy": {1: "resourceName:str", 2: "restartPolicy:str"},
    "ContainerRestartRule": {1: "action:str", 2: "exitCodes:ContainerRestartExitCodes"},
    "ContainerRestartExitCodes": {1: "operator:str", 2: "values:[]int"},
    "ContainerResourceClaim": {1: "name:str", 2: "request:str"},
    "ResourceRequirements": {
        1: "limits:{}Quantity",
        2: "requests:{}Quantity",
        3: "claims:[]ContainerResourceClaim",
    },
    "VolumeDevice": {1: "name:str", 2: "devicePath:str"},
    "VolumeMount": {
        1: "name:str",
        2: "readOnly:bool",
        3: "mountPath:str",
        4: "subPath:str",
        5: "mountPropagation:str",
        6: "subPathExpr:str",
        7: "recursiveReadOnly:str",
    },
}
