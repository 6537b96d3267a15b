"""The protobuf messages of a pod template."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.messages import Message

POD_MESSAGES: Final[Mapping[str, Message]] = {
    "PodTemplateSpec": {1: "metadata:ObjectMeta", 2: "spec:PodSpec"},
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
}
