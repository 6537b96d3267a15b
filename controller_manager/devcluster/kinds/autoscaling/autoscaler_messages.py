"""The protobuf messages of autoscalers, of both versions."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.messages import Message

V1_MESSAGES: Final[Mapping[str, Message]] = {
    "autoscaling/v1 HorizontalPodAutoscaler": {
        1: "metadata:ObjectMeta",
        2: "spec:autoscaling/v1 HorizontalPodAutoscalerSpec",
        3: "status:autoscaling/v1 HorizontalPodAutoscalerStatus",
    },
    "autoscaling/v1 HorizontalPodAutoscalerSpec": {
        1: "scaleTargetRef:CrossVersionObjectReference",
        2: "minReplicas:int",
        3: "maxReplicas:int",
        4: "targetCPUUtilizationPercentage:int",
    },
    "autoscaling/v1 HorizontalPodAutoscalerStatus": {
        1: "observedGeneration:int",
        2: "lastScaleTime:Time",
        3: "currentReplicas:int",
        4: "desiredReplicas:int",
        5: "currentCPUUtilizationPercentage:int",
    },
}
"""Messages of v1 get other names: most have the same name in both versions."""

V2_MESSAGES: Final[Mapping[str, Message]] = {
    "HorizontalPodAutoscaler": {
        1: "metadata:ObjectMeta",
        2: "spec:HorizontalPodAutoscalerSpec",
        3: "status:HorizontalPodAutoscalerStatus",
    },
    "HorizontalPodAutoscalerSpec": {
        1: "scaleTargetRef:CrossVersionObjectReference",
        2: "minReplicas:int",
        3: "maxReplicas:int",
        4: "metrics:[]MetricSpec",
        5: "behavior:HorizontalPodAutoscalerBehavior",
    },
    "CrossVersionObjectReference": {1: "kind:str", 2: "name:str", 3: "apiVersion:str"},
    "HorizontalPodAutoscalerBehavior": {
        1: "scaleUp:HPAScalingRules",
        2: "scaleDown:HPAScalingRules",
    },
    "HPAScalingRules": {
        1: "selectPolicy:str",
        2: "policies:[]HPAScalingPolicy",
        3: "stabilizationWindowSeconds:int",
        4: "tolerance:Quantity",
    },
    "HPAScalingPolicy": {1: "type:str", 2: "value:int", 3: "periodSeconds:int"},
    "MetricSpec": {
        1: "type:str",
        2: "object:ObjectMetricSource",
        3: "pods:PodsMetricSource",
        4: "resource:ResourceMetricSource",
        5: "external:ExternalMetricSource",
        7: "containerResource:ContainerResourceMetricSource",
    },
    "ObjectMetricSource": {
        1: "describedObject:CrossVersionObjectReference",
        2: "target:MetricTarget",
        3: "metric:MetricIdentifier",
    },
    "PodsMetricSource": {1: "metric:MetricIdentifier", 2: "target:MetricTarget"},
    "ResourceMetricSource": {1: "name:str", 2: "target:MetricTarget"},
    "ContainerResourceMetricSource": {
        1: "name:str",
        2: "target:MetricTarget",
        3: "container:str",
    },
    "ExternalMetricSource": {1: "metric:MetricIdentifier", 2: "target:MetricTarget"},
    "MetricIdentifier": {1: "name:str", 2: "selector:LabelSelector"},
    "MetricTarget": {
        1: "type:str",
        2: "value:Quantity",
        3: "averageValue:Quantity",
        4: "averageUtilization:int",
    },
    "HorizontalPodAutoscalerStatus": {
        1: "observedGeneration:int",
        2: "lastScaleTime:Time",
        3: "currentReplicas:int",
        4: "desiredReplicas:int",
        5: "currentMetrics:[]MetricStatus",
        6: "conditions:[]HorizontalPodAutoscalerCondition",
    },
    "HorizontalPodAutoscalerCondition": {
        1: "type:str",
        2: "status:str",
        3: "lastTransitionTime:Time",
        4: "reason:str",
        5: "message:str",
    },
    "MetricStatus": {
        1: "type:str",
        2: "object:ObjectMetricStatus",
        3: "pods:PodsMetricStatus",
        4: "resource:ResourceMetricStatus",
        5: "external:ExternalMetricStatus",
        7: "containerResource:ContainerResourceMetricStatus",
    },
    "ObjectMetricStatus": {
        1: "metric:MetricIdentifier",
        2: "current:MetricValueStatus",
        3: "describedObject:CrossVersionObjectReference",
    },
    "PodsMetricStatus": {1: "metric:MetricIdentifier", 2: "current:MetricValueStatus"},
    "ResourceMetricStatus": {1: "name:str", 2: "current:MetricValueStatus"},
    "ContainerResourceMetricStatus": {
        1: "name:str",
        2: "current:MetricValueStatus",
        3: "container:str",
    },
    "ExternalMetricStatus": {
        1: "metric:MetricIdentifier",
        2: "current:MetricValueStatus",
    },
    "MetricValueStatus": {
        1: "value:Quantity",
        2: "averageValue:Quantity",
        3: "averageUtilization:int",
    },
}
