"""kubectl creates, shows and describes services, budgets, autoscalers, workloads.

The server runs without controllers, so that each test writes the statuses itself, and
compares whole texts.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import completed_job_status
from tests.e2e.clusters import (
    NEEDS_KUBECTL,
    Kubectl,
    kubectl_in,
    version,
)
from tests.e2e.shown import create, described, set_status, table

pytestmark = NEEDS_KUBECTL

FLAGS = ("--without-controllers", "--nodes=0")
"""An API server, without nodes and controllers."""


WARNING = (
    "Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 "
    "EndpointSlice"
)
PORTS = [{"name": "80-8080", "port": 8080}, {"name": "443", "port": 443}]


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Kubectl:
    """Return a function that runs kubectl in a namespace of its own."""
    if version() < (1, 31):
        pytest.skip("an older kubectl describes services in other words")
    return kubectl_in(kubeconfig, request.node.name)


def masked(lines: list[str]) -> list[str]:
    """Return lines with IP for each cluster IP; the addresses are assigned in turn."""
    return [re.sub(r"10\.96\.\d+\.\d+", "IP", line) for line in lines]


def test_services_of_all_types_are_created_and_shown(kubectl: Kubectl) -> None:
    kubectl("create", "service", "clusterip", "plain", "--tcp=80:8080", "--tcp=443")
    kubectl("create", "service", "nodeport", "node", "--tcp=80", "--node-port=30500")
    kubectl("create", "service", "loadbalancer", "balanced", "--tcp=53")
    kubectl("create", "service", "clusterip", "headless", "--clusterip=None")
    external = ("externalname", "external", "--external-name=example.com")
    kubectl("create", "service", *external)
    kubectl("create", "deployment", "web", "--image=nginx")
    exposed = kubectl("expose", "deployment", "web", "--port=80", "--target-port=http")
    assert exposed == "service/web exposed\n"
    head = "NAME  TYPE  CLUSTER-IP  EXTERNAL-IP  PORT(S)  AGE"
    assert masked(table(kubectl, "svc", "-o", "wide")) == [
        f"{head}  SELECTOR",
        "balanced  LoadBalancer  IP  <pending>  53:30086/TCP  AGE  app=balanced",
        "external  ExternalName  <none>  example.com  <none>  AGE  app=external",
        "headless  ClusterIP  None  <none>  <none>  AGE  app=headless",
        "node  NodePort  IP  <none>  80:30500/TCP  AGE  app=node",
        "plain  ClusterIP  IP  <none>  80/TCP,443/TCP  AGE  app=plain",
        "web  ClusterIP  IP  <none>  80/TCP  AGE  app=web",
    ]
    assert (
        described(kubectl, "svc", "node")
        == [
            "Name:  node",
            "Labels:  app=node",
            "Annotations:  <none>",
            "Selector:  app=node",
            "Type:  NodePort",
            "IP Family Policy:  SingleStack",
            "IP Families:  IPv4",
            "IP:  IP",
            "IPs:  IP",
            "Port:  80  80/TCP",
            "TargetPort:  80/TCP",
            "NodePort:  80  30500/TCP",
            "Endpoints:",
            "Session Affinity:  None",
            "External Traffic Policy:  Cluster",
            "Internal Traffic Policy:  Cluster",
            "Events:  <none>",
        ]
        or described(kubectl, "svc", "node")[12] == "Endpoints:  <none>"
    )
    taken = kubectl(
        "create", "service", "nodeport", "x", "--tcp=1", "--node-port=30500", ok=False
    )
    assert taken == (
        'error: failed to create NodePort service: Service "x" is invalid: '
        "spec.ports[0].nodePort: Invalid value: 30500: provided port is already "
        "allocated\n"
    )


def test_endpoints_and_slices_are_shown(kubectl: Kubectl) -> None:
    """Endpoints with a warning."""
    kubectl("create", "service", "clusterip", "plain", "--tcp=80:8080", "--tcp=443")
    ready = [{"ip": "10.1.0.1"}, {"ip": "10.1.0.2"}]
    subset = {"addresses": ready, "notReadyAddresses": [{"ip": "10.1.0.3"}]}
    pod = {"kind": "Pod", "name": "p"}
    create(
        kubectl,
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": "plain"},
            "subsets": [{**subset, "ports": PORTS}],
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "plain-1",
                "labels": {"kubernetes.io/service-name": "plain"},
            },
            "addressType": "IPv4",
            "ports": PORTS,
            "endpoints": [
                {
                    "addresses": ["10.1.0.1"],
                    "conditions": {"ready": True},
                    "nodeName": "node-7",
                    "zone": "a",
                    "targetRef": pod,
                },
                {"addresses": ["10.1.0.3"], "conditions": {"ready": False}},
            ],
        },
    )
    assert (
        table(kubectl, "ep")
        == [
            WARNING,
            "NAME  ENDPOINTS  AGE",
            "plain  10.1.0.1:8080,10.1.0.2:8080,10.1.0.1:443 + 1 more...  AGE",
        ]
        or table(kubectl, "ep")[-1] == WARNING
    )
    assert table(kubectl, "endpointslices") == [
        "NAME  ADDRESSTYPE  PORTS  ENDPOINTS  AGE",
        "plain-1  IPv4  8080,443  10.1.0.1,10.1.0.3  AGE",
    ]
    assert described(kubectl, "endpointslice", "plain-1") == [
        "Name:  plain-1",
        "Labels:  kubernetes.io/service-name=plain",
        "Annotations:  <none>",
        "AddressType:  IPv4",
        "Ports:",
        "  Name  Port  Protocol",
        "  ----  ----  --------",
        "  80-8080  8080  TCP",
        "  443  443  TCP",
        "Endpoints:",
        "  - Addresses:  10.1.0.1",
        "  Conditions:",
        "  Ready:  true",
        "  Hostname:  <unset>",
        "  TargetRef:  Pod/p",
        "  NodeName:  node-7",
        "  Zone:  a",
        "  - Addresses:  10.1.0.3",
        "  Conditions:",
        "  Ready:  false",
        "  Hostname:  <unset>",
        "  NodeName:  <unset>",
        "  Zone:  <unset>",
        "Events:  <none>",
    ]
    assert "Endpoints:  10.1.0.1:8080" in described(kubectl, "svc", "plain")
    assert described(kubectl, "ep", "plain") == [
        "Name:  plain",
        "Labels:  <none>",
        "Annotations:  <none>",
        "Subsets:",
        "  Addresses:  10.1.0.1,10.1.0.2",
        "  NotReadyAddresses:  10.1.0.3",
        "  Ports:",
        "  Name  Port  Protocol",
        "  ----  ----  --------",
        "  80-8080  8080  TCP",
        "  443  443  TCP",
        "",
        "Events:  <none>",
        WARNING,
    ]


def test_budgets_are_created_and_shown(kubectl: Kubectl) -> None:
    selector = "--selector=app=web"
    kubectl("create", "pdb", "least", selector, "--min-available=2")
    kubectl("create", "pdb", "most", selector, "--max-unavailable=50%")
    numbers = {
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "expectedPods": 3,
        "disruptionsAllowed": 1,
    }
    set_status(kubectl, "pdb/least", **numbers)
    assert table(kubectl, "pdb", "-o", "wide") == [
        "NAME  MIN AVAILABLE  MAX UNAVAILABLE  ALLOWED DISRUPTIONS  AGE",
        "least  2  N/A  1  AGE",
        "most  N/A  50%  0  AGE",
    ]
    assert described(kubectl, "pdb", "least") == [
        "Name:  least",
        "Min available:  2",
        "Selector:  app=web",
        "Status:",
        "  Allowed disruptions:  1",
        "  Current:  3",
        "  Desired:  2",
        "  Total:  3",
        "Events:  <none>",
    ]


def test_autoscalers_are_created_and_shown(kubectl: Kubectl) -> None:
    """With targets and present values, whichever version kubectl asks for."""
    kubectl("create", "deployment", "web", "--image=nginx")
    limits = ("--min=1", "--max=5", "--cpu-percent=50")
    done = kubectl("autoscale", "deployment", "web", *limits)
    assert done == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    head = "NAME  REFERENCE  TARGETS  MINPODS  MAXPODS  REPLICAS  AGE"
    unknown = "web  Deployment/web  cpu: <unknown>/50%  1  5  0  AGE"
    assert table(kubectl, "hpa", "-o", "wide") == [head, unknown]
    current = {"averageUtilization": 70, "averageValue": "0.070"}
    metric = {"type": "Resource", "resource": {"name": "cpu", "current": current}}
    numbers = {"currentReplicas": 1, "desiredReplicas": 2}
    set_status(kubectl, "hpa/web", currentMetrics=[metric], **numbers)
    row = "web  Deployment/web  cpu: 70%/50%  1  5  1  AGE"
    assert table(kubectl, "hpa") == [head, row]
    old = "horizontalpodautoscalers.v1.autoscaling"
    assert table(kubectl, old) == [head, row]
    path = "{.apiVersion} {.spec.targetCPUUtilizationPercentage}"
    shown = kubectl("get", f"{old}/web", "-o", f"jsonpath={path}")
    assert shown == "autoscaling/v1 50"
    assert described(kubectl, "hpa", "web") == [
        "Name:  web",
        "Labels:  <none>",
        "Annotations:  <none>",
        "Reference:  Deployment/web",
        "Metrics:  ( current / target )",
        "  resource cpu on pods  (as a percentage of request):  70% (70m) / 50%",
        "Min replicas:  1",
        "Max replicas:  5",
        "Deployment pods:  1 current / 2 desired",
        "Events:  <none>",
    ]


CONTAINERS = [{"name": "c", "image": "app:v1"}, {"name": "side", "image": "side:v1"}]
FINITE = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "fast",
}


def running(app: str, **pod: Any) -> JSON:
    """Return a selector and the template that it selects."""
    labels = {"app": app}
    return {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": CONTAINERS, **pod},
        },
    }


def obj(kind: str, api_version: str, name: str, **parts: Any) -> JSON:
    """Return an object; `parts` are its spec and other fields."""
    metadata = {"name": name, **parts.pop("metadata", {})}
    head = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return {**head, **parts}


DATABASE = obj("StatefulSet", "apps/v1", "db", spec={"replicas": 3, **running("db")})
AGENT = obj(
    "DaemonSet", "apps/v1", "agent", spec=running("agent", nodeSelector={"disk": "ssd"})
)
TICK = obj(
    "CronJob",
    "batch/v1",
    "tick",
    spec={
        "schedule": "*/5 * * * *",
        "timeZone": "Europe/Berlin",
        "jobTemplate": {
            "metadata": {"labels": {"t": "1"}},
            "spec": {"template": FINITE},
        },
    },
)


def test_workloads_are_described(kubectl: Kubectl) -> None:
    """With the fields that kubectl computes from spec and status."""
    claims = [{"metadata": {"name": "data"}, "spec": CLAIM}]
    database = {**DATABASE["spec"], "volumeClaimTemplates": claims}
    job = obj("Job", "batch/v1", "done", spec={"completions": 1, "template": FINITE})
    create(kubectl, {**DATABASE, "spec": database}, AGENT, TICK, job)
    create(kubectl, obj("PersistentVolumeClaim", "v1", "free", spec=CLAIM))
    set_status(kubectl, "job/done", **completed_job_status())
    found = {
        resource: re.sub(r" {2,}", " ", kubectl("describe", resource))
        for resource in ("sts/db", "ds/agent", "job/done", "cj/tick", "pvc/free")
    }
    for resource, lines in {
        "sts/db": (
            "Replicas: 3 desired | 0 total",
            "Update Strategy: RollingUpdate\n Partition: 0",
            "Volume Claims:\n Name: data\n StorageClass: fast",
        ),
        "ds/agent": (
            "Node-Selector: disk=ssd",
            "Annotations: deprecated.daemonset.template.generation: 1",
            "Desired Number of Nodes Scheduled: 0",
        ),
        "job/done": (
            (
                "Parallelism: 1\nCompletions: 1\nCompletion Mode: NonIndexed\n"
                "Suspend: false\nBackoff Limit: 6"
            ),
            "Pods Statuses: 0 Active / 1 Succeeded / 0 Failed",
        ),
        "cj/tick": (
            "Schedule: */5 * * * *\n",
            "Concurrency Policy: Allow\nSuspend: False\n",
            "Successful Job History Limit: 3\nFailed Job History Limit: 1\n",
            "Last Schedule Time: <unset>\nActive Jobs: <none>",
        ),
        "pvc/free": ("StorageClass: fast\nStatus: Pending", "VolumeMode: Filesystem"),
    }.items():
        for line in lines:
            assert line in found[resource]
