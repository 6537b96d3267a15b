"""Manifests in the style of well-known projects apply as on a real cluster.

They are in tests/data/projects, made for this test.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.clusters import NEEDS_KUBECTL, version

pytestmark = NEEDS_KUBECTL

FLAGS = ("--without-controllers", "--nodes=0")
"""An API server, without nodes and controllers."""


PROJECTS: Final = Path(__file__).parent.parent / "data" / "projects"

ALWAYS_CONFIGURED: Final = {
    "deployment.apps/cluster-autoscaler": "0.1 is stored as 100m",
    "deployment.apps/ingress-nginx-controller": "minReadySeconds: 0 is not stored",
    "limitrange/limits": "defaults in a list",
    "persistentvolume/archive": "an empty storageClassName is not stored",
    "poddisruptionbudget.policy/cluster-autoscaler": "each patch has the selector",
    "priorityclass.scheduling.k8s.io/overprovisioning": "false is not stored",
    "resourceclaimtemplate.resource.k8s.io/single-gpu": "defaults in a list",
    "secret/registry": "stringData is stored as data",
    "statefulset.apps/db": "defaults in the templates of claims, which are a list",
    "validatingadmissionpolicy.admissionregistration.k8s.io/replicas-are-few": (
        "defaults in a list"
    ),
}
"""Objects that a second apply patches on a real cluster as well, and why."""


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    """Run kubectl, with the namespaces of the manifests; return its output."""
    result = subprocess.run(
        ["kubectl", f"--kubeconfig={kubeconfig}", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HOME": str(kubeconfig.parent)},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def applied(kubeconfig: Path, path: Path, *flags: str) -> dict[str, str]:
    """Apply the files of a directory; return what happened to each object.

    Other lines, such as warnings, are in the result, too.
    """
    output = kubectl(kubeconfig, "apply", *flags, "-f", str(path))
    return dict(line.rsplit(" ", 1) for line in output.splitlines())


def test_manifests_of_projects_apply(kubeconfig: Path) -> None:
    if version() < (1, 27):
        pytest.skip("an older kubectl cannot validate on the server")
    first = applied(kubeconfig, PROJECTS)
    assert set(first.values()) == {"created"}
    assert len(first) > 60
    again = {
        name: "configured" if name in ALWAYS_CONFIGURED else "unchanged"
        for name in first
    }
    assert applied(kubeconfig, PROJECTS) == again
    on_server = applied(kubeconfig, PROJECTS, "--server-side", "--force-conflicts")
    assert on_server == dict.fromkeys(first, "serverside-applied")
    custom = applied(kubeconfig, PROJECTS / "instances")
    assert set(custom.values()) == {"created"}
    again = applied(kubeconfig, PROJECTS / "instances")
    assert again == dict.fromkeys(custom, "unchanged")
    assert kubectl(kubeconfig, "diff", "-f", str(PROJECTS / "instances")) == ""
    gone = kubectl(kubeconfig, "delete", "--wait=false", "-f", str(PROJECTS))
    assert len(gone.splitlines()) >= len(first)
