"""kubectl applies on the server, and shows objects that controllers apply."""

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from tests.e2e.clusters import KUBECTL, Kubectl
from tests.e2e.shown import create

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]


def deployment(replicas: int) -> str:
    labels = {"app": "web"}
    containers = [{"name": "c", "image": "app:v1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
    )


def test_a_scaled_deployment_is_applied_only_by_force(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    for _ in range(2):
        applied = kubectl(*apply, stdin=deployment(1))
        assert applied == "deployment.apps/web serverside-applied\n"
    kubectl("scale", "deployment", "web", "--replicas=3")
    refused = kubectl(*apply, stdin=deployment(1), ok=False)
    first, *_ = refused.splitlines()
    assert first == (
        'error: Apply failed with 1 conflict: conflict with "kubectl" with subresource '
        '"scale" using apps/v1: .spec.replicas'
    )
    kubectl(*apply, "--force-conflicts", stdin=deployment(1))
    path = "jsonpath={.spec.replicas}"
    assert kubectl("get", "deployment", "web", "-o", path) == "1"
    kubectl("diff", "--server-side", "-f", "-", stdin=deployment(1))


def test_a_role_gathers_rules_and_a_policy_gets_its_status(kubectl: Kubectl) -> None:
    kubectl("create", "clusterrole", "e2e-all", "--aggregation-rule=e2e=true")
    kubectl("create", "clusterrole", "e2e-one", "--verb=get", "--resource=pods")
    kubectl("label", "clusterrole", "e2e-one", "e2e=true")
    gathered = "jsonpath={.rules[0].resources[0]}"
    kubectl("wait", f"--for={gathered}=pods", "clusterrole/e2e-all", "--timeout=20s")
    create(kubectl, _policy("e2e-policy", "object.replicas > 1"))
    policy = "validatingadmissionpolicy/e2e-policy"
    seen = "jsonpath={.status.observedGeneration}"
    kubectl("wait", f"--for={seen}=1", policy, "--timeout=20s")
    warnings = "jsonpath={.status.typeChecking.expressionWarnings[*].warning}"
    assert kubectl("get", policy, "-o", warnings) == (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n"
        " | object.replicas > 1\n"
        " | ......^\n"
    )


def _policy(name: str, expression: str) -> JSON:
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
        "operations": ["CREATE"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}],
        },
    }


def test_a_range_of_services_is_kept_while_it_is_in_use(kubectl: Kubectl) -> None:
    """Its condition names the reason; it is removed after the service."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}], "clusterIP": "172.28.0.9"},
    }
    ranges = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "e2e-range"},
        "spec": {"cidrs": ["172.28.0.0/24"]},
    }
    create(kubectl, ranges)
    ready = "--for=condition=Ready"
    kubectl("wait", ready, "servicecidr/e2e-range", "--timeout=20s")
    create(kubectl, service)
    kubectl("delete", "servicecidr", "e2e-range", "--wait=false")
    kubectl("wait", f"{ready}=False", "servicecidr/e2e-range", "--timeout=20s")
    kubectl("delete", "service", "web")
    kubectl("wait", "--for=delete", "servicecidr/e2e-range", "--timeout=30s")
