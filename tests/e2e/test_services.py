"""kubectl creates, shows and describes services, budgets, autoscalers and quotas.

The server runs without controllers, so that each test writes the statuses itself, and
compares whole texts.
"""

import re
from pathlib import Path

import pytest

from tests.e2e.clusters import (
    KUBECTL,
    Kubectl,
    kubectl_in,
    version,
)
from tests.e2e.shown import create, described, set_status, table

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]

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


def test_service_cidrs_and_addresses_are_shown(kubectl: Kubectl) -> None:
    kubectl("create", "service", "clusterip", "web", "--clusterip=10.96.7.7", "--tcp=1")
    assert table(kubectl, "servicecidrs") == [
        "NAME  CIDRS  AGE",
        "kubernetes  10.96.0.0/12  AGE",
    ]
    namespace = kubectl("get", "svc", "web", "-o", "jsonpath={.metadata.namespace}")
    assert table(kubectl, "ipaddresses", "10.96.7.7") == [
        "NAME  PARENTREF  AGE",
        f"10.96.7.7  services/{namespace}/web  AGE",
    ]
