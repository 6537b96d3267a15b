"""The protobuf messages of networking (api/networking/v1/generated.proto)."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.messages import Message

INGRESS_MESSAGES: Final[Mapping[str, Message]] = {
    "Ingress": {
        1: "metadata:ObjectMeta",
        2: "spec:IngressSpec",
        3: "status:IngressStatus",
    },
    "IngressSpec": {
        1: "defaultBackend:IngressBackend",
        2: "tls:[]IngressTLS",
        3: "rules:[]IngressRule",
        4: "ingressClassName:str",
    },
    "IngressTLS": {1: "hosts:[]str", 2: "secretName:str"},
    "IngressRule": {1: "host:str", 2: ":+IngressRuleValue"},
    "IngressRuleValue": {1: "http:HTTPIngressRuleValue"},
    "HTTPIngressRuleValue": {1: "paths:[]HTTPIngressPath"},
    "HTTPIngressPath": {1: "path:str", 2: "backend:IngressBackend", 3: "pathType:str"},
    "IngressBackend": {
        3: "resource:TypedLocalObjectReference",
        4: "service:IngressServiceBackend",
    },
    "IngressServiceBackend": {1: "name:str", 2: "port:ServiceBackendPort"},
    "ServiceBackendPort": {1: "name:str", 2: "number:int"},
    "TypedLocalObjectReference": {1: "apiGroup:str", 2: "kind:str", 3: "name:str"},
    "IngressStatus": {1: "loadBalancer:IngressLoadBalancerStatus"},
    "IngressLoadBalancerStatus": {1: "ingress:[]IngressLoadBalancerIngress"},
    "IngressLoadBalancerIngress": {
        1: "ip:str",
        2: "hostname:str",
        4: "ports:[]IngressPortStatus",
    },
    "IngressPortStatus": {1: "port:int", 2: "protocol:str", 3: "error:str"},
}

INGRESS_CLASS_MESSAGES: Final[Mapping[str, Message]] = {
    "IngressClass": {1: "metadata:ObjectMeta", 2: "spec:IngressClassSpec"},
    "IngressClassSpec": {
        1: "controller:str",
        2: "parameters:IngressClassParametersReference",
    },
    "IngressClassParametersReference": {
        1: "apiGroup:str",
        2: "kind:str",
        3: "name:str",
        4: "scope:str",
        5: "namespace:str",
    },
}

POLICY_MESSAGES: Final[Mapping[str, Message]] = {
    "NetworkPolicy": {1: "metadata:ObjectMeta", 2: "spec:NetworkPolicySpec"},
    "NetworkPolicySpec": {
        1: "podSelector:LabelSelector",
        2: "ingress:[]NetworkPolicyIngressRule",
        3: "egress:[]NetworkPolicyEgressRule",
        4: "policyTypes:[]str",
    },
    "NetworkPolicyIngressRule": {
        1: "ports:[]NetworkPolicyPort",
        2: "from:[]NetworkPolicyPeer",
    },
    "NetworkPolicyEgressRule": {
        1: "ports:[]NetworkPolicyPort",
        2: "to:[]NetworkPolicyPeer",
    },
    "NetworkPolicyPeer": {
        1: "podSelector:LabelSelector",
        2: "namespaceSelector:LabelSelector",
        3: "ipBlock:IPBlock",
    },
    "NetworkPolicyPort": {1: "protocol:str", 2: "port:IntOrString", 3: "endPort:int"},
    "IPBlock": {1: "cidr:str", 2: "except:[]str"},
}
