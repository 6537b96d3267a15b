"""The protobuf messages of a pod template (api/core/v1/generated.proto)."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.kinds.container_messages import CONTAINER_MESSAGES
from controller_manager.devcluster.kinds.volume_messages import VOLUME_MESSAGES
from controller_manager.devcluster.server.messages import Message

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_POD_AFFINITY: Final = {
    1: f"{_REQUIRED}:[]PodAffinityTerm",
    2: f"{_PREFERRED}:[]WeightedPodAffinityTerm",
}

_AFFINITY: Final[Mapping[str, Message]] = {
    "Affinity": {
        1: "nodeAffinity:NodeAffinity",
        2: "podAffinity:PodAffinity",
        3: "podAntiAffinity:PodAntiAffinity",
    },
    "NodeAffinity": {
        1: f"{_REQUIRED}:NodeSelector",
        2: f"{_PREFERRED}:[]PreferredSchedulingTerm",
    },
    "NodeSelector": {1: "nodeSelectorTerms:[]NodeSelectorTerm"},
    "NodeSelectorTerm": {
        1: "matchExpressions:[]NodeSelectorRequirement",
        2: "matchFields:[]NodeSelectorRequirement",
    },
    "NodeSelectorRequirement": {1: "key:str", 2: "operator:str", 3: "values:[]str"},
    "PreferredSchedulingTerm": {1: "weight:int", 2: "preference:NodeSelectorTerm"},
    "PodAffinity": _POD_AFFINITY,
    "PodAntiAffinity": _POD_AFFINITY,
    "PodAffinityTerm": {
        1: "labelSelector:LabelSelector",
        2: "namespaces:[]str",
        3: "topologyKey:str",
        4: "namespaceSelector:LabelSelector",
        5: "matchLabelKeys:[]str",
        6: "mismatchLabelKeys:[]str",
    },
    "WeightedPodAffinityTerm": {1: "weight:int", 2: "podAffinityTerm:PodAffinityTerm"},
    "TopologySpreadConstraint": {
        1: "maxSkew:int",
        2: "topologyKey:str",
        3: "whenUnsatisfiable:str",
        4: "labelSelector:LabelSelector",
        5: "minDomains:int",
        6: "nodeAffinityPolicy:str",
        7: "nodeTaintsPolicy:str",
        8: "matchLabelKeys:[]str",
    },
    "Toleration": {
        1: "key:str",
        2: "operator:str",
        3: "value:str",
        4: "effect:str",
        5: "tolerationSeconds:int",
    },
}

POD_MESSAGES: Final[Mapping[str, Message]] = {
    **CONTAINER_MESSAGES,
    **VOLUME_MESSAGES,
    **_AFFINITY,
    "PodTemplateSpec": {1: "metadata:ObjectMeta", 2: "spec:PodSpec"},
    "PodSpec": {
        1: "volumes:[]Volume",
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
        15: "imagePullSecrets:[]LocalObjectReference",
        16: "hostname:str",
        17: "subdomain:str",
        18: "affinity:Affinity",
        19: "schedulerName:str",
        20: "initContainers:[]Container",
        21: "automountServiceAccountToken:bool",
        22: "tolerations:[]Toleration",
        23: "hostAliases:[]HostAlias",
        24: "priorityClassName:str",
        25: "priority:int",
        26: "dnsConfig:PodDNSConfig",
        27: "shareProcessNamespace:bool",
        28: "readinessGates:[]PodReadinessGate",
        29: "runtimeClassName:str",
        30: "enableServiceLinks:bool",
        31: "preemptionPolicy:str",
        32: "overhead:{}Quantity",
        33: "topologySpreadConstraints:[]TopologySpreadConstraint",
        35: "setHostnameAsFQDN:bool",
        36: "os:PodOS",
        37: "hostUsers:bool",
        38: "schedulingGates:[]PodSchedulingGate",
        39: "resourceClaims:[]PodResourceClaim",
        40: "resources:ResourceRequirements",
        41: "hostnameOverride:str",
    },
    "PodSecurityContext": {
        1: "seLinuxOptions:SELinuxOptions",
        2: "runAsUser:int",
        3: "runAsNonRoot:bool",
        4: "supplementalGroups:[]int",
        5: "fsGroup:int",
        6: "runAsGroup:int",
        7: "sysctls:[]Sysctl",
        9: "fsGroupChangePolicy:str",
        10: "seccompProfile:SeccompProfile",
        11: "appArmorProfile:AppArmorProfile",
        12: "supplementalGroupsPolicy:str",
        13: "seLinuxChangePolicy:str",
    },
    "Sysctl": {1: "name:str", 2: "value:str"},
    "HostAlias": {1: "ip:str", 2: "hostnames:[]str"},
    "PodDNSConfig": {
        1: "nameservers:[]str",
        2: "searches:[]str",
        3: "options:[]PodDNSConfigOption",
    },
    "PodDNSConfigOption": {1: "name:str", 2: "value:str"},
    "PodOS": {1: "name:str"},
    "PodReadinessGate": {1: "conditionType:str"},
    "PodResourceClaim": {
        1: "name:str",
        3: "resourceClaimName:str",
        4: "resourceClaimTemplateName:str",
    },
    "PodSchedulingGate": {1: "name:str"},
}
