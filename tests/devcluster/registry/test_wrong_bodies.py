"""No body makes the server fail: it reports the error."""

import copy
import json
import random
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds
from tests.clusters import Cluster
from tests.devcluster.registry.minimal import minimal
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

RULE: JSON = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
    "resourceNames": ["a"],
}
TARGET: JSON = {"type": "AverageValue", "averageValue": "5"}
METRIC: JSON = {"name": "m", "selector": {"matchLabels": {"a": "b"}}}
REFERENCE: JSON = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
PREFIX = "autoscaling.alpha.kubernetes.io/"
OBJECTS: dict[str, JSON] = {
    "/api/v1/namespaces/default/services": {
        "spec": {
            "type": "NodePort",
            "selector": {"a": "b"},
            "clusterIP": "10.96.0.9",
            "clusterIPs": ["10.96.0.9"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "PreferDualStack",
            "externalIPs": ["1.2.3.4"],
            "externalTrafficPolicy": "Local",
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}},
            "trafficDistribution": "PreferClose",
            "ports": [
                {"name": "a", "port": 80, "targetPort": "http", "nodePort": 30001},
                {"name": "b", "port": 81, "protocol": "UDP", "appProtocol": "x/y"},
            ],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
    },
    "/api/v1/namespaces/default/endpoints": {
        "subsets": [
            {
                "addresses": [{"ip": "10.0.0.1", "hostname": "a", "nodeName": "n"}],
                "notReadyAddresses": [{"ip": "fd00::1"}],
                "ports": [{"name": "a", "port": 80, "protocol": "TCP"}],
            }
        ]
    },
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": {
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": True},
                "hostname": "a",
                "nodeName": "n",
                "hints": {"forZones": [{"name": "a"}], "forNodes": [{"name": "n"}]},
            }
        ],
        "ports": [{"name": "a", "port": 80, "appProtocol": "x/y"}],
    },
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": {
        "spec": {
            "minReplicas": 1,
            "maxReplicas": 5,
            "scaleTargetRef": REFERENCE,
            "metrics": [
                {"type": "External", "external": {"metric": METRIC, "target": TARGET}},
                {"type": "Pods", "pods": {"metric": METRIC, "target": TARGET}},
                {"type": "Resource", "resource": {"name": "cpu", "target": TARGET}},
                {
                    "type": "Object",
                    "object": {
                        "metric": METRIC,
                        "describedObject": REFERENCE,
                        "target": {"type": "Value", "value": "1"},
                    },
                },
            ],
            "behavior": {
                "scaleUp": {
                    "tolerance": "0.1",
                    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}],
                },
                "scaleDown": {"stabilizationWindowSeconds": 5, "selectPolicy": "Min"},
            },
        },
        "status": {
            "currentReplicas": 1,
            "currentMetrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "current": {"averageValue": "1"}},
                }
            ],
        },
    },
    "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers": {
        "metadata": {
            "annotations": {
                f"{PREFIX}behavior": '{"ScaleUp":{"SelectPolicy":"Max"}}',
                f"{PREFIX}current-metrics": '[{"type":"Pods"}]',
                f"{PREFIX}conditions": "[{}]",
            }
        },
        "spec": {
            "maxReplicas": 5,
            "scaleTargetRef": REFERENCE,
            "targetCPUUtilizationPercentage": 50,
        },
        "status": {"currentCPUUtilizationPercentage": 5},
    },
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "spec": {
            "minAvailable": "50%",
            "selector": {"matchLabels": {"a": "b"}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
        "status": {"disruptedPods": {"a": "2026-01-01T00:00:00Z"}},
    },
    "/apis/networking.k8s.io/v1/servicecidrs": {"spec": {"cidrs": ["10.0.0.0/24"]}},
    "/apis/networking.k8s.io/v1/ipaddresses": {
        "metadata": {"name": "10.0.0.1"},
        "spec": {
            "parentRef": {
                "group": "",
                "resource": "services",
                "namespace": "default",
                "name": "a",
            }
        },
    },
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies": {
        "spec": {
            "podSelector": {"matchLabels": {"a": "b"}},
            "ingress": [{"ports": [{"port": 80}]}],
            "egress": [{"ports": [{"port": "x"}]}],
        }
    },
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "A"},
            "matchConstraints": {"resourceRules": [RULE]},
            "matchConditions": [{"name": "a", "expression": "true"}],
            "variables": [{"name": "a", "expression": "1"}],
            "validations": [{"expression": "true", "message": "m"}],
            "auditAnnotations": [{"key": "a", "valueExpression": "'1'"}],
        }
    },
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": {
        "spec": {
            "policyName": "a",
            "paramRef": {"name": "a", "parameterNotFoundAction": "Deny"},
            "matchResources": {"resourceRules": [RULE]},
            "validationActions": ["Deny"],
        }
    },
}
VALUES: tuple[Any, ...] = (
    None,
    "",
    "x",
    "None",
    -1,
    0,
    1,
    70000,
    True,
    [],
    {},
    [{}],
    [None],
    "1/2",
    "é",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in an object."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    found = [path] if path else []
    for key in keys:
        found += places(value[key], (*path, key))
    return found


def damaged(obj: JSON, rng: random.Random) -> JSON:
    """Return an object with one or two values removed or replaced."""
    result = copy.deepcopy(obj)
    for _ in range(rng.randint(1, 2)):
        path = rng.choice(places(result))
        parent: Any = result
        for key in path[:-1]:
            parent = parent[key]
        if rng.random() < 0.4:
            del parent[path[-1]]
        else:
            parent[path[-1]] = copy.deepcopy(rng.choice(VALUES))
        if not places(result):
            return result
    return result


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.split("/")[-1])
@pytest.mark.parametrize("seed", range(2))
async def test_a_wrong_body_is_refused_or_mended(
    cluster: Cluster, path: str, seed: int
) -> None:
    """When it is new, when it replaces an object, and when it is its status."""
    rng, accept = random.Random(seed), "application/json;as=Table;v=v1;g=meta.k8s.io"
    given = {"metadata": {"name": "a"}, **OBJECTS[path]}
    given["metadata"] = {"name": "a", **given["metadata"]}
    created = await call(cluster, "POST", path, json.dumps(given).encode())
    assert created.status == 201, created.body
    name = given["metadata"]["name"]
    for number in range(150):
        body = damaged(given, rng)
        metadata = body.get("metadata")
        if isinstance(metadata, dict) and name == "a":
            metadata["name"] = f"b{number}"
        answers = [await call(cluster, "POST", path, json.dumps(body).encode())]
        if isinstance(metadata, dict):
            metadata["name"] = name
        encoded = json.dumps(body).encode()
        answers += [
            await call(cluster, "PUT", where, encoded)
            for where in (f"{path}/{name}", f"{path}/{name}/status")
        ]
        answers.append(await call(cluster, "GET", path, accept=accept))
        for answer in answers:
            assert answer.status < 500, (body, answer.body)


@pytest.mark.parametrize(
    "kind",
    [each for each in find_kinds() if each.is_stored and "create" in each.verbs],
    ids=lambda kind: f"{kind.resource}-{kind.version}",
)
async def test_a_little_wrong_of_every_kind_is_refused_or_mended(
    cluster: Cluster, kind: Kind
) -> None:
    """Also of the least that an object must have."""
    rng, given = random.Random(5), minimal(kind)
    root = f"/apis/{kind.group}" if kind.group else "/api"
    scope = "/namespaces/default" if kind.namespaced else ""
    path = f"{root}/{kind.version}{scope}/{kind.plural}"
    created = await call(cluster, "POST", path, json.dumps(given).encode())
    assert created.status == 201, created.body
    where = f"{path}/{given['metadata']['name']}"
    for _ in range(80):
        body = json.dumps(damaged(given, rng)).encode()
        for method, url in (("POST", path), ("PUT", where), ("PUT", f"{where}/status")):
            answer = await call(cluster, method, url, body)
            assert answer.status < 500, (body, answer.body)
