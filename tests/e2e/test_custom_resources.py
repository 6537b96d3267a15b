"""kubectl with kinds that a definition adds."""

from pathlib import Path

from tests.e2e.clusters import NEEDS_KUBECTL, Kubectl, version
from tests.e2e.shown import table

pytestmark = NEEDS_KUBECTL

DIRECTORY = Path(__file__).parents[1] / "data" / "custom_resources"


def parts(name: str) -> list[str]:
    """Return the manifests of a definition, of a right object, and of a wrong one."""
    return (DIRECTORY / f"{name}.yaml").read_text().split("---\n")[:3]


def test_objects_are_applied_scaled_listed_and_explained(kubectl: Kubectl) -> None:
    definition, right, wrong = parts("monitors")
    kubectl("apply", "-f", "-", stdin=definition)
    established = "--for=condition=established"
    kubectl("wait", established, "crd/monitors.metrics.example.com", "--timeout=20s")
    applied = kubectl("apply", "-f", "-", stdin=right)
    assert applied == "monitor.metrics.example.com/right created\n"
    assert kubectl("apply", "-f", "-", stdin=right).endswith("unchanged\n")
    kubectl("scale", "mon", "right", "--replicas=5")
    expected = ["NAME  VERSION  DESIRED  READY", "right  v3  5"]
    assert table(kubectl, "metrics") == expected
    explained = kubectl("explain", "monitor.spec.retention")
    assert "FIELD: retention <string>" in explained
    refused = kubectl("apply", "-f", "-", stdin=wrong, ok=False)
    assert "* spec.endpoints[0].targetPort: Invalid value:" in refused


def test_rules_and_unknown_fields_are_reported(kubectl: Kubectl) -> None:
    """Kubectl has the server validate fields, and shows its warnings."""
    definition, right, wrong = parts("routes")
    kubectl("apply", "--server-side", "-f", "-", stdin=definition)
    refused = kubectl("apply", "-f", "-", stdin=wrong, ok=False)
    assert "sectionName must be unique" in refused
    odd = right.replace("spec:", "spec:\n  odd: 1")
    if version() >= (1, 27):
        refused = kubectl("apply", "-f", "-", stdin=odd, ok=False)
        assert 'strict decoding error: unknown field "spec.odd"' in refused
        warned = kubectl("apply", "--validate=warn", "-f", "-", stdin=odd)
        assert 'Warning: unknown field "spec.odd"' in warned
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=right)
    kubectl("delete", "crd", "routes.gateway.example.com", "--timeout=20s")
    assert "NotFound" in kubectl("get", "route", "right", ok=False)
