"""kubectl of several versions does what people do with it."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from controller_manager.devcluster.testing import DevelopmentCluster
from tests.clients.binaries import MINORS, package, unpack
from tests.clients.scenarios import JSON

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]

WIDGET: JSON = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "small"},
    "spec": {"size": 1},
}
CONFIG_MAP: JSON = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "conf", "labels": {"app": "a"}},
    "data": {"a": "1"},
}
MANIFEST = yaml.safe_dump_all([CONFIG_MAP, WIDGET])

NOT_FOUND = 'Error from server (NotFound): configmaps "nope" not found'


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One kubectl, and the namespace that it works in."""

    path: str
    cluster: DevelopmentCluster
    namespace: str
    home: Path

    def __call__(self, line: str) -> str:
        """Run it with the words of a line; return all that it prints."""
        played = subprocess.run(
            [self.path, "--namespace", self.namespace, *line.split()],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            input=MANIFEST,
            env={**self.cluster.environment(), "HOME": str(self.home)},
        )
        return (played.stdout + played.stderr).strip()


@pytest.fixture(scope="session", params=["of this machine", *MINORS])
def program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> str:
    if request.param == "of this machine":
        found = shutil.which("kubectl")
        return found or pytest.skip("there is no kubectl on the PATH")
    path = unpack("kubectl", request.param, tmp_path_factory.mktemp("kubectl"))
    if path is None:
        pytest.skip(f"the package {package(request.param)} is not installed")
    return str(path)


@pytest.fixture
def kubectl(
    program: str, clients_cluster: DevelopmentCluster, tmp_path: Path
) -> Iterator[Kubectl]:
    with clients_cluster.namespace("kubectl") as namespace:
        yield Kubectl(program, clients_cluster, namespace, tmp_path)


COMMANDS = (
    ("create -f -", "configmap/conf created\nwidget.example.com/small created"),
    ("get configmap conf -o jsonpath={.data.a}", "1"),
    ("get configmap nope", NOT_FOUND),
    ("get configmaps -l app=a -o name", "configmap/conf"),
    ("get configmaps --field-selector metadata.name=x -o name", ""),
    ("get widgets,secrets --chunk-size=1 -o name", "widget.example.com/small"),
    ('patch configmap conf -p {"data":{"b":"2"}}', "configmap/conf patched"),
    (
        'patch widget small --type=merge -p {"spec":{"size":2}}',
        "widget.example.com/small patched",
    ),
    (
        'patch configmap conf --type=json -p [{"op":"remove","path":"/data/b"}]',
        "configmap/conf patched",
    ),
    ("get configmap conf -o jsonpath={.data}", '{"a":"1"}'),
    ("label configmap conf tier=x", "configmap/conf labeled"),
    ("annotate configmap conf note=1 -o name", "configmap/conf"),
    ("replace -f -", "configmap/conf replaced\nwidget.example.com/small replaced"),
    (
        "apply --server-side --force-conflicts -f -",
        (
            "configmap/conf serverside-applied\n"
            "widget.example.com/small serverside-applied"
        ),
    ),
    ("create deployment web --image=nginx", "deployment.apps/web created"),
    ("scale deployment web --replicas=2", "deployment.apps/web scaled"),
    ("set image deployment/web nginx=nginx:2", "deployment.apps/web image updated"),
    (
        "wait --for=condition=Available deployment/web --timeout=20s",
        "deployment.apps/web condition met",
    ),
    ("get deployment web --subresource=scale -o jsonpath={.spec.replicas}", "2"),
    (
        "autoscale deployment web --max=3",
        "horizontalpodautoscaler.autoscaling/web autoscaled",
    ),
    ("expose deployment web --port=80", "service/web exposed"),
    ("create secret generic s --from-literal=a=b", "secret/s created"),
    ("create job j --image=busybox", "job.batch/j created"),
    ("create quota q --hard=secrets=9", "resourcequota/q created"),
    ("auth can-i list pods", "yes"),
    ("get --raw /readyz", "ok"),
    (
        "delete deployment,service,job,secret --all --wait=false -o name",
        "deployment.apps/web\nservice/web\njob.batch/j\nsecret/s",
    ),
    ("delete configmap conf -o name", "configmap/conf"),
    ("delete widgets --all -o name", "widget.example.com/small"),
    ("get widgets,secrets -o name", ""),
)
"""Commands, and their output."""


def test_kubectl_does_what_people_do_with_it(kubectl: Kubectl) -> None:
    """Each command prints the same as on a real cluster."""
    printed = [(line, kubectl(line)) for line, _ in COMMANDS]
    assert printed == list(COMMANDS)


def test_kubectl_explains_the_types_of_openapi(kubectl: Kubectl) -> None:
    deployment = kubectl("explain deployment.spec.replicas")
    assert "FIELD: replicas <integer>" in deployment
    assert "FIELD: size <integer>" in kubectl("explain widget.spec.size")


def test_kubectl_shows_the_rows_of_a_watch(kubectl: Kubectl) -> None:
    """Until its time is over."""
    kubectl("create configmap a")
    rows = kubectl("get configmaps --watch --request-timeout=1s --no-headers")
    assert [row.split()[:2] for row in rows.splitlines()] == [["a", "0"]]
