"""The protobuf messages of services."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.messages import Message

SERVICE_MESSAGES: Final[Mapping[str, Message]] = {
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
        14: "sessionAffinityConfig:SessionAffinityConfig",
        17: "ipFamilyPolicy:str",
        18: "clusterIPs:[]str",
        19: "ipFamilies:[]str",
        20: "allocateLoadBalancerNodePorts:bool",
        21: "loadBalancerClass:str",
        22: "internalTrafficPolicy:str",
        23: "trafficDistribution:str",
    },
    "ServicePort": {
        1: "name:str",
        2: "protocol:str",
        3: "port:int",
        4: "targetPort:IntOrString",
        5: "nodePort:int",
        6: "appProtocol:str",
    },
    "ServiceStatus": {
        1: "loadBalancer:LoadBalancerStatus",
        2: "conditions:[]Condition",
    },
    "LoadBalancerStatus": {1: "ingress:[]LoadBalancerIngress"},
    "LoadBalancerIngress": {1: "ip:str", 2: "hostname:str"},
    "SessionAffinityConfig": {1: "clientIP:ClientIPConfig"},
    "ClientIPConfig": {1: "timeoutSeconds:int"},
}
