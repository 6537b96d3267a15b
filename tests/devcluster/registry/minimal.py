"""The least that an object of each kind must have to be valid."""

import copy
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from tests.devcluster.rows import parsed

_TEMPLATE: Final[JSON] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i:v1"}]},
}
_WORKLOAD: Final[JSON] = {
    "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": _TEMPLATE}
}

_FINITE: Final[JSON] = {
    **_TEMPLATE,
    "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"},
}
"""A template for pods that run to their end."""

_EVERYTHING: Final[JSON] = {
    name: ["*"] for name in ("apiGroups", "apiVersions", "operations", "resources")
}
"""A rule that matches all requests."""

_ADDRESSES: Final = {"a": 1, "one": 2, "two": 3, "three": 4, "unborn": 5, "zzz": 6}
"""The last numbers of the addresses of objects with these names."""

_BACKEND: Final[JSON] = {"service": {"name": "a", "port": {"number": 80}}}

_NEW_EVENT: Final[JSON] = {
    "regarding": {"namespace": "default"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "type": "Normal",
    "reason": "Started",
    "action": "Start",
    "reportingController": "example.com/tester",
    "reportingInstance": "tester-1",
}

_TARGET: Final[JSON] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}

_REQUEST: Final = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWk1JR0FBZ0VBTUI0"
    "eERUQUxCZ05WQkFvTUJHUmxkbk14RFRBTEJnTlZCQU1NQkdwaGJtVXdXVEFUQmdjcQpo"
    "a2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVIxTVpjOVY0ZHRIRDE1d2tKWFlHMzgrNDRq"
    "M2x1aGt6OWNkMVEyCldpM3UzUzBmVnpnSU9KSzlDeGk0ZFZBTVYrS3oxbkRJSVRDYVAx"
    "V1J3cUdBYTI4Mm9BQXdDZ1lJS29aSXpqMEUKQXdJRFNBQXdSUUlnSUJuTTkzR0lPZUND"
    "VjhCbm81V0dreUFRS0dNNW4xVDVZSTFJMGVTblVzUUNJUURCK1JNbApVQzdicXNYK0Nz"
    "VGV1NE1PNlFVN0RpT3AxUEdNc3JFZnZVOFZiZz09Ci0tLS0tRU5EIENFUlRJRklDQVRF"
    "IFJFUVVFU1QtLS0tLQo="
)
"""A request for a certificate of jane's, a member of devs."""

_AUTHORITY: Final = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"

_MORE: Final[dict[str, JSON]] = {
    "APIService": {
        "spec": {
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
        }
    },
    "CertificateSigningRequest": {
        "spec": {
            "request": _REQUEST,
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        }
    },
    "ClusterTrustBundle": {"spec": {"trustBundle": _AUTHORITY}},
    "ControllerRevision": {"data": {"spec": {}}, "revision": 1},
    "CronJob": {
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": _FINITE}},
        }
    },
    "CustomResourceDefinition": parsed("""
        spec:
          group: example.com
          scope: Namespaced
          names: {plural: a, kind: A}
          versions:
            - name: v1
              served: true
              storage: true
              schema: {openAPIV3Schema: {type: object}}"""),
    "DaemonSet": _WORKLOAD,
    "Deployment": _WORKLOAD,
    "DeviceTaintRule": {"spec": {"taint": {"key": "broken", "effect": "NoExecute"}}},
    "EndpointSlice": {"addressType": "IPv4"},
    "Event": {"involvedObject": {"namespace": "default"}},
    "FlowSchema": parsed("""
        spec:
          priorityLevelConfiguration: {name: catch-all}
          rules:
            - subjects: [{kind: User, user: {name: jane}}]
              nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['*']}]"""),
    "HorizontalPodAutoscaler": {"spec": {"maxReplicas": 3, "scaleTargetRef": _TARGET}},
    "Ingress": {"spec": {"defaultBackend": _BACKEND}},
    "IngressClass": {"spec": {"controller": "example.com/ingress"}},
    "IPAddress": {"spec": {"parentRef": {"resource": "services", "name": "a"}}},
    "Job": {"spec": {"template": _FINITE}},
    "PersistentVolume": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/data"},
        }
    },
    "PersistentVolumeClaim": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    "Pod": {"spec": _TEMPLATE["spec"]},
    "PodGroup": {"spec": {"schedulingPolicy": {"basic": {}}}},
    "PodTemplate": {"template": _TEMPLATE},
    "PriorityLevelConfiguration": {
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    },
    "ClusterRoleBinding": {"roleRef": {"kind": "ClusterRole", "name": "view"}},
    "ReplicaSet": _WORKLOAD,
    "ReplicationController": {"spec": {"template": _TEMPLATE}},
    "RoleBinding": {"roleRef": {"kind": "Role", "name": "reader"}},
    "ResourcePoolStatusRequest": {"spec": {"driver": "gpu.example.com"}},
    "ResourceClaimTemplate": {"spec": {"spec": {}}},
    "ResourceSlice": {
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "a", "resourceSliceCount": 1},
            "nodeName": "node-0",
        }
    },
    "RuntimeClass": {"handler": "runc"},
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "ServiceCIDR": {"spec": {"cidrs": ["192.168.0.0/24"]}},
    "StatefulSet": _WORKLOAD,
    "StorageClass": {"provisioner": "example.com/disks"},
    "CSIStorageCapacity": {"storageClassName": "fast"},
    "VolumeAttachment": {
        "spec": {
            "attacher": "csi.example.com",
            "source": {"persistentVolumeName": "a"},
            "nodeName": "node-0",
        }
    },
    "VolumeAttributesClass": {
        "driverName": "csi.example.com",
        "parameters": {"iops": "100"},
    },
    "Workload": {
        "spec": {
            "podGroupTemplates": [{"name": "a", "schedulingPolicy": {"basic": {}}}]
        }
    },
    "MutatingAdmissionPolicy": {
        "spec": {
            "matchConstraints": {
                "resourceRules": [{**_EVERYTHING, "operations": ["CREATE", "UPDATE"]}]
            },
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{}"},
                }
            ],
            "reinvocationPolicy": "Never",
        }
    },
    "MutatingAdmissionPolicyBinding": {"spec": {"policyName": "a"}},
    "StorageVersionMigration": {"spec": {"resource": {"resource": "secrets"}}},
    "ValidatingAdmissionPolicy": {
        "spec": {
            "matchConstraints": {"resourceRules": [_EVERYTHING]},
            "validations": [{"expression": "true"}],
        }
    },
    "ValidatingAdmissionPolicyBinding": {
        "spec": {"policyName": "a", "validationActions": ["Deny"]}
    },
}
"""The fields that a kind needs beyond its metadata; most kinds need none."""


def minimal(kind: Kind, name: str = "a", **metadata: Any) -> JSON:
    """Return a new object of a kind, valid and with as little as possible."""
    more = copy.deepcopy(_MORE.get(kind.kind, {}))
    if kind.kind == "CustomResourceDefinition":  # it must be named after its spec
        more["spec"]["names"]["plural"] = name
        name = f"{name}.example.com"
    if kind.kind == "APIService":  # likewise
        more["spec"]["version"] = name
        name = f"{name}.example.com"
    if kind.group == "events.k8s.io":
        more = copy.deepcopy(_NEW_EVENT)
    if kind.kind == "IPAddress":
        name = f"192.168.0.{_ADDRESSES[name]}"
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {"name": name, **metadata},
        **more,
    }
