"""The writes of a manager in the form of the recordings."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Write
from tests.conformance.access import other
from tests.conformance.aliases import Aliases
from tests.conformance.writes import concerns, normalised, unknown_kinds

SETS = "/apis/apps/v1/namespaces/n/statefulsets"
PODS = "/api/v1/namespaces/n/pods"
CLAIMS = "/api/v1/namespaces/n/persistentvolumeclaims"


def write(method: str, path: str, body: JSON | None = None, status: int = 200) -> Write:
    return Write(method, path, status, json.dumps(body).encode() if body else b"")


@pytest.mark.parametrize(
    ("path", "is_concerned"),
    [
        (PODS, True),
        ("/api/v1/namespaces/n", True),
        ("/api/v1/namespaces/n/status", True),
        ("/api/v1/namespaces/n-2/pods/n", False),
        ("/api/v1/nodes/n-node", True),
        ("/api/v1/nodes/other", False),
    ],
)
def test_a_write_concerns_a_scenario(path: str, *, is_concerned: bool) -> None:
    assert concerns(write("PATCH", path), "n") == is_concerned


@pytest.mark.parametrize(
    ("name", "is_concerned"),
    [
        ("bootstrap-token-a", True),
        ("bootstrap-token-", True),
        ("other", False),
        ("", False),
    ],
)
def test_a_write_concerns_a_scenario_in_another_namespace(
    name: str, *, is_concerned: bool
) -> None:
    others = [other("Secret kube-system/bootstrap-token-*")]
    sent = write("DELETE", f"/api/v1/namespaces/kube-system/secrets/{name}")
    assert concerns(sent, "n", others) == is_concerned


def test_a_kind_of_write_that_upstream_does_not_send_is_found() -> None:
    """It may patch what upstream updates; new and deleted objects must be the same."""
    recorded = normalised(
        [
            write("POST", CLAIMS, {"metadata": {"name": "a"}}),
            write("PUT", f"{SETS}/web/status", {"status": {"replicas": 1}}),
            write("DELETE", f"{PODS}/a"),
        ],
        Aliases(),
    )
    ours = normalised(
        [
            write("PATCH", f"{SETS}/web/status", {"status": {"replicas": 2}}),
            write("PATCH", f"{SETS}/web", {"spec": {}}),
            write("POST", CLAIMS, {"metadata": {"name": "b"}}),
            write("DELETE", f"{PODS}/b", {"gracePeriodSeconds": 0}),
            write("DELETE", f"{PODS}/c"),
        ],
        Aliases(),
    )
    assert unknown_kinds(ours, recorded) == [
        '["change", "statefulsets"]',
        '["create", "persistentvolumeclaims", {"metadata": {"name": "b"}}]',
        '["delete", "pods", {"gracePeriodSeconds": 0}]',
    ]


@pytest.mark.parametrize(
    ("method", "spec", "is_concerned"),
    [
        ("POST", {"source": {"persistentVolumeName": "n-volume"}}, True),
        ("POST", {"source": {"persistentVolumeName": "other"}}, False),
        ("DELETE", None, False),
    ],
)
def test_a_write_concerns_a_scenario_that_its_spec_names(
    method: str, spec: JSON | None, *, is_concerned: bool
) -> None:
    """As an attachment of its volume has another name; a deletion has no spec."""
    name = "" if method == "POST" else "/csi-1"
    path = f"/apis/storage.k8s.io/v1/volumeattachments{name}"
    sent = write(method, path, {"spec": spec} if spec else None)
    assert concerns(sent, "n-volume") == is_concerned
