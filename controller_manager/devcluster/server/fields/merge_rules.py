"""The fields of built-in kinds whose merge differs from the default.

By default a list is replaced as a whole, and a map is merged field by field. Upstream:
the extensions ``x-kubernetes-list-type``, ``x-kubernetes-list-map-keys`` and
``x-kubernetes-map-type`` of the OpenAPI document (api/openapi-spec/swagger.json).
"""

from collections.abc import Mapping
from typing import Final

Keys = tuple[str, ...]

_SET: Final[Keys] = ()
_NAME: Final[Keys] = ("name",)
_TYPE: Final[Keys] = ("type",)
_IP: Final[Keys] = ("ip",)

_CONTAINER: Final[Mapping[str, Keys]] = {
    "env": _NAME,
    "ports": ("containerPort", "protocol"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}
_WEBHOOK: Final[Mapping[str, Keys]] = {"matchConditions": _NAME}
_CLAIM_STATUS: Final[Mapping[str, Keys]] = {
    "devices": ("driver", "device", "pool", "shareID"),
    "reservedFor": ("uid",),
}

LIST_KEYS: Final[Mapping[str, Mapping[str, Keys]]] = {
    "V1CSIDriverSpec": {"volumeLifecycleModes": _SET},
    "V1CSINodeSpec": {"drivers": _NAME},
    "V1Container": _CONTAINER,
    "V1ContainerRestartRuleOnExitCodes": {"values": _SET},
    "V1ContainerStatus": {
        "allocatedResourcesStatus": _NAME,
        "volumeMounts": ("mountPath",),
    },
    "V1Endpoint": {"addresses": _SET},
    "V1EphemeralContainer": _CONTAINER,
    "V1JSONSchemaProps": {"x-kubernetes-validations": ("rule",)},
    "V1MutatingAdmissionPolicySpec": _WEBHOOK,
    "V1MutatingWebhook": _WEBHOOK,
    "V1MutatingWebhookConfiguration": {"webhooks": _NAME},
    "V1NodeAllocatableResourceClaimStatus": {"containers": _SET},
    "V1NodeSpec": {"podCIDRs": _SET},
    "V1NodeStatus": {"addresses": _TYPE, "conditions": _TYPE},
    "V1NonResourcePolicyRule": {"nonResourceURLs": _SET, "verbs": _SET},
    "V1ObjectMeta": {"finalizers": _SET, "ownerReferences": ("uid",)},
    "V1PodFailurePolicyOnExitCodesRequirement": {"values": _SET},
    "V1PodSpec": {
        "containers": _NAME,
        "ephemeralContainers": _NAME,
        "hostAliases": _IP,
        "imagePullSecrets": _NAME,
        "initContainers": _NAME,
        "resourceClaims": _NAME,
        "schedulingGates": _NAME,
        "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
        "volumes": _NAME,
    },
    "V1PodStatus": {
        "conditions": _TYPE,
        "podIPs": _IP,
        "resourceClaimStatuses": _NAME,
    },
    "V1ResourceClaimStatus": _CLAIM_STATUS,
    "V1ResourcePolicyRule": {
        "apiGroups": _SET,
        "namespaces": _SET,
        "resources": _SET,
        "verbs": _SET,
    },
    "V1ResourceRequirements": {"claims": _NAME},
    "V1ResourceStatus": {"resources": ("resourceID",)},
    "V1ServiceAccount": {"secrets": _NAME},
    "V1ServiceSpec": {"ports": ("port", "protocol")},
    "V1UncountedTerminatedPods": {"failed": _SET, "succeeded": _SET},
    "V1ValidatingAdmissionPolicyBindingSpec": {"validationActions": _SET},
    "V1ValidatingAdmissionPolicySpec": {"matchConditions": _NAME, "variables": _NAME},
    "V1ValidatingWebhook": _WEBHOOK,
    "V1ValidatingWebhookConfiguration": {"webhooks": _NAME},
    "V1alpha1ServerStorageVersion": {
        "decodableVersions": _SET,
        "servedVersions": _SET,
    },
    "V1alpha1StorageVersionStatus": {
        "conditions": _TYPE,
        "storageVersions": ("apiServerID",),
    },
    "V1alpha2PodGroupSpec": {"resourceClaims": _NAME},
    "V1alpha2PodGroupStatus": {"conditions": _TYPE, "resourceClaimStatuses": _NAME},
    "V1alpha2PodGroupTemplate": {"resourceClaims": _NAME},
    "V1alpha2WorkloadSpec": {"podGroupTemplates": _NAME},
    "V1beta1ResourceClaimStatus": _CLAIM_STATUS,
    "V1beta2ResourceClaimStatus": _CLAIM_STATUS,
    **{
        model: {"conditions": _TYPE}
        for model in (
            "V1APIServiceStatus",
            "V1AllocatedDeviceStatus",
            "V1CertificateSigningRequestStatus",
            "V1ComponentStatus",
            "V1CustomResourceDefinitionStatus",
            "V1DaemonSetStatus",
            "V1DeploymentStatus",
            "V1FlowSchemaStatus",
            "V1NamespaceStatus",
            "V1PersistentVolumeClaimStatus",
            "V1PodDisruptionBudgetStatus",
            "V1PriorityLevelConfigurationStatus",
            "V1ReplicaSetStatus",
            "V1ReplicationControllerStatus",
            "V1ServiceCIDRStatus",
            "V1ServiceStatus",
            "V1StatefulSetStatus",
            "V1ValidatingAdmissionPolicyStatus",
            "V1alpha3DeviceTaintRuleStatus",
            "V1alpha3ResourcePoolStatusRequestStatus",
            "V1beta1AllocatedDeviceStatus",
            "V1beta1PodCertificateRequestStatus",
            "V1beta1ServiceCIDRStatus",
            "V1beta1StorageVersionMigrationStatus",
            "V1beta2AllocatedDeviceStatus",
            "V1beta2DeviceTaintRuleStatus",
            "V2HorizontalPodAutoscalerStatus",
        )
    },
}
"""The keys of lists that are merged, by model and field; a set has none."""

DEFAULT_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "V1ContainerPort": {"protocol": "TCP"},
    "V1ServicePort": {"protocol": "TCP"},
}
"""The values of keys that items may lack, by the model of the items."""

ATOMIC: Final = frozenset(
    (
        "CoreV1EndpointPort",
        "DiscoveryV1EndpointPort",
        "RbacV1Subject",
        "V1ConfigMapKeySelector",
        "V1CrossVersionObjectReference",
        "V1EndpointAddress",
        "V1FileKeySelector",
        "V1LabelSelector",
        "V1LocalObjectReference",
        "V1MatchResources",
        "V1NamedRuleWithOperations",
        "V1NodeSelector",
        "V1NodeSelectorTerm",
        "V1ObjectFieldSelector",
        "V1ObjectReference",
        "V1OwnerReference",
        "V1ParamKind",
        "V1ParamRef",
        "V1ResourceFieldSelector",
        "V1RoleRef",
        "V1ScopeSelector",
        "V1SecretKeySelector",
        "V1SecretReference",
        "V1ServiceBackendPort",
        "V1TopologySelectorTerm",
        "V1TypedLocalObjectReference",
        "V1Variable",
    )
)
"""Models that are replaced as a whole, wherever they are."""

ATOMIC_MAPS: Final = frozenset(
    (
        ("V1PodSpec", "nodeSelector"),
        ("V1ReplicationControllerSpec", "selector"),
        ("V1Scheduling", "nodeSelector"),
        ("V1ServiceSpec", "selector"),
    )
)
"""Maps, by model and field, that are replaced as a whole."""

GRANULAR: Final = frozenset((("V1PersistentVolumeSpec", "claimRef"),))
"""Fields, by model and name, that are merged although their model is atomic."""


ALWAYS_THERE: Final[Mapping[str, frozenset[str]]] = {
    "CoreV1Event": frozenset(("involvedObject", "source")),
    "EventsV1Event": frozenset(("deprecatedSource", "regarding")),
    "V1CSINodeSpec": frozenset(("drivers",)),
    "V1Container": frozenset(("resources",)),
    "V1ContainerStatus": frozenset(("lastState", "state")),
    "V1CronJobSpec": frozenset(("jobTemplate",)),
    "V1CustomResourceDefinitionSpec": frozenset(("names",)),
    "V1CustomResourceDefinitionStatus": frozenset(("acceptedNames",)),
    "V1DaemonSetSpec": frozenset(("template", "updateStrategy")),
    "V1DeploymentSpec": frozenset(("strategy", "template")),
    "V1DeviceTaintRuleSpec": frozenset(("taint",)),
    "V1Endpoint": frozenset(("conditions",)),
    "V1EphemeralContainer": frozenset(("resources",)),
    "V1FlowSchemaSpec": frozenset(("priorityLevelConfiguration",)),
    "V1HTTPIngressPath": frozenset(("backend",)),
    "V1IngressStatus": frozenset(("loadBalancer",)),
    "V1JobSpec": frozenset(("template",)),
    "V1LimitedPriorityLevelConfiguration": frozenset(("limitResponse",)),
    "V1MutatingWebhook": frozenset(("clientConfig",)),
    "V1NodeStatus": frozenset(("daemonEndpoints", "nodeInfo")),
    "V1NodeDaemonEndpoints": frozenset(("kubeletEndpoint",)),
    "V1PersistentVolumeClaimSpec": frozenset(("resources",)),
    "V1PodSpec": frozenset(("containers",)),
    "V1PodTemplate": frozenset(("template",)),
    "V1ResourceClaimSpec": frozenset(("devices",)),
    "V1ResourceSliceSpec": frozenset(("pool",)),
    "V1ReplicaSetSpec": frozenset(("template",)),
    "V1ServiceStatus": frozenset(("loadBalancer",)),
    "V1StatefulSetSpec": frozenset(("template", "updateStrategy")),
    "V1ValidatingWebhook": frozenset(("clientConfig",)),
    "V1VolumeAttachmentSpec": frozenset(("source",)),
    "V1alpha3DeviceTaintRuleSpec": frozenset(("taint",)),
    "V1beta1StorageVersionMigrationSpec": frozenset(("resource",)),
    "V1beta2DeviceTaintRuleSpec": frozenset(("taint",)),
    "V2HorizontalPodAutoscalerSpec": frozenset(("scaleTargetRef",)),
}
"""Fields that Go writes also when they are empty, besides `ALWAYS_THERE_ANYWHERE`."""

ALWAYS_THERE_ANYWHERE: Final = frozenset(("metadata", "spec", "status"))
"""Fields, with a model of their own, that Go writes in all models that have them."""
