"""A real kubectl works on the development cluster as on a real one."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controllers.builders import deployment_json
from tests.e2e.clusters import (
    NEEDS_KUBECTL,
    Kubectl,
    gone,
    names,
    validation,
    version,
)

pytestmark = NEEDS_KUBECTL


def manifest(**spec: Any) -> str:
    obj = deployment_json(**spec)
    del obj["metadata"]["namespace"]
    return yaml.safe_dump(obj)


def rolled_out(kubectl: Kubectl, name: str = "web") -> None:
    output = kubectl("rollout", "status", f"deployment/{name}", "--timeout=30s")
    assert "successfully rolled out" in output


def field(kubectl: Kubectl, path: str, name: str = "web") -> str:
    return kubectl("get", "deployment", name, "-o", f"jsonpath={{{path}}}")


def test_a_deployment_is_applied_and_shown(kubectl: Kubectl) -> None:
    """With the columns that kubectl prints."""
    output = kubectl("apply", *validation(), "-f", "-", stdin=manifest())
    assert output == "deployment.apps/web created\n"
    rolled_out(kubectl)
    header, row = kubectl("get", "deployments").splitlines()
    assert header.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == ["web", "3/3", "3", "3"]
    pods = kubectl("get", "pods").splitlines()
    assert len(pods) == 4
    assert all(line.split()[1:4] == ["1/1", "Running", "0"] for line in pods[1:])
    again = kubectl("apply", *validation(), "-f", "-", stdin=manifest())
    assert again == "deployment.apps/web unchanged\n"


def test_describe_shows_conditions_and_events(kubectl: Kubectl) -> None:
    """As upstream shows them."""
    kubectl("apply", *validation(), "-f", "-", stdin=manifest())
    rolled_out(kubectl)
    output = kubectl("describe", "deployment", "web")
    assert re.search(r"Progressing +True +NewReplicaSetAvailable", output)
    assert re.search(r"Available +True +MinimumReplicasAvailable", output)
    assert re.search(
        r"Normal +ScalingReplicaSet .* deployment-controller +"
        r"Scaled up replica set web-\w+ from 0 to 3",
        output,
    )


def test_an_image_is_set_and_undone(kubectl: Kubectl) -> None:
    """The history is shown; undo goes to the last and to a given revision."""
    kubectl("apply", *validation(), "-f", "-", stdin=manifest())
    rolled_out(kubectl)
    for image in ("app:v2", "app:v3"):
        kubectl("set", "image", "deployment/web", f"c={image}")
        rolled_out(kubectl)
    history = kubectl("rollout", "history", "deployment/web")
    assert re.findall(r"^\d+", history, re.MULTILINE) == ["1", "2", "3"]
    image = ".spec.template.spec.containers[0].image"
    kubectl("rollout", "undo", "deployment/web")
    rolled_out(kubectl)
    assert field(kubectl, image) == "app:v2"
    kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    rolled_out(kubectl)
    assert field(kubectl, image) == "app:v1"


def test_a_rollout_is_paused_resumed_and_restarted(kubectl: Kubectl) -> None:
    """A change waits while the deployment is paused."""
    kubectl("apply", *validation(), "-f", "-", stdin=manifest())
    rolled_out(kubectl)
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "image", "deployment/web", "c=app:v2")
    kubectl("wait", "--for=condition=Progressing=Unknown", "deployment/web")
    assert len(kubectl("get", "replicasets").splitlines()) == 2
    kubectl("rollout", "resume", "deployment/web")
    rolled_out(kubectl)
    kubectl("rollout", "restart", "deployment/web")
    rolled_out(kubectl)
    assert len(kubectl("get", "replicasets").splitlines()) == 4


def test_a_deployment_is_scaled_and_waited_for(kubectl: Kubectl) -> None:
    kubectl("apply", *validation(), "-f", "-", stdin=manifest())
    kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=30s")
    for size in ("5", "1"):
        kubectl("scale", "deployment/web", f"--replicas={size}")
        rolled_out(kubectl)
        assert field(kubectl, ".status.availableReplicas") == size
    kubectl("scale", "deployment/web", "--replicas=2", "--current-replicas=7", ok=False)


def test_objects_are_created_edited_and_explained(kubectl: Kubectl) -> None:
    """Without extra flags, by a present kubectl."""
    if version() < (1, 27):
        pytest.skip("an older kubectl needs --validate=false")
    kubectl("create", "deployment", "api", "--image=api:v1", "--replicas=2")
    rolled_out(kubectl, "api")
    kubectl("edit", "deployment", "api", KUBE_EDITOR="sed -i s/api:v1/api:v2/")
    rolled_out(kubectl, "api")
    assert field(kubectl, ".spec.template.spec.containers[0].image", "api") == "api:v2"
    output = kubectl("explain", "deployment.spec.replicas")
    assert "FIELD: replicas <integer>" in output
    kubectl("create", "configmap", "c", "--from-literal=k=v")
    kubectl("create", "secret", "generic", "s", "--from-literal=k=v")
    kubectl("create", "quota", "q", "--hard=pods=10")
    kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "b", "--role=r", "--user=jane")
    kubectl("create", "cronjob", "j", "--image=app:v1", "--schedule=* * * * *")


def test_the_dependents_of_a_deleted_deployment_are_deleted(kubectl: Kubectl) -> None:
    """Before the deployment with --cascade=foreground, else soon after it."""
    for policy in ("background", "foreground"):
        kubectl("apply", *validation(), "-f", "-", stdin=manifest())
        rolled_out(kubectl)
        output = kubectl("delete", "deployment", "web", f"--cascade={policy}")
        assert 'deployment.apps "web" deleted' in output
        if policy == "background":
            gone(kubectl, "replicasets,pods")
        assert names(kubectl, "deployments,replicasets,pods") == []


def test_orphaned_objects_stay_until_a_user_deletes_them(kubectl: Kubectl) -> None:
    kubectl("apply", *validation(), "-f", "-", stdin=manifest())
    rolled_out(kubectl)
    kubectl("delete", "deployment", "web", "--cascade=orphan")
    path = "jsonpath={.items[*].metadata.ownerReferences}"
    assert kubectl("get", "replicasets", "-o", path) == ""
    assert len(names(kubectl, "pods")) == 3
    kubectl("delete", "replicasets", "-l", "app=web")
    gone(kubectl, "replicasets,pods")


def test_a_deleted_namespace_is_emptied(kubectl: Kubectl) -> None:
    """While a finalizer holds an object in it, a condition says so."""
    kubectl("apply", *validation(), "-f", "-", stdin=manifest())
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    }
    kubectl("create", *validation(), "-f", "-", stdin=yaml.safe_dump(held))
    path = "jsonpath={.metadata.namespace}"
    namespace = kubectl("get", "configmap", "held", "-o", path)
    kubectl("delete", "namespace", namespace, "--wait=false")
    condition = "--for=condition=NamespaceFinalizersRemaining"
    kubectl("wait", condition, f"namespace/{namespace}", "--timeout=30s")
    patch = '{"metadata": {"finalizers": null}}'
    kubectl("patch", "configmap", "held", "--type=merge", f"--patch={patch}")
    kubectl("wait", "--for=delete", f"namespace/{namespace}", "--timeout=50s")


def test_a_watch_shows_a_rollout(kubectl: Kubectl, kubeconfig: Path) -> None:
    kubectl("apply", *validation(), "-f", "-", stdin=manifest(replicas=1))
    rolled_out(kubectl)
    namespace = kubectl(
        "get", "deployment", "web", "-o", "jsonpath={.metadata.namespace}"
    )
    with subprocess.Popen(
        [
            *("kubectl", f"--kubeconfig={kubeconfig}", "-n", namespace),
            *("get", "deployments", "--watch"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as watch:
        assert watch.stdout is not None
        watch.stdout.readline()
        watch.stdout.readline()
        kubectl("scale", "deployment/web", "--replicas=2")
        row = watch.stdout.readline()
        watch.terminate()
    assert row.split()[:2] == ["web", "1/2"]


def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    if version() < (1, 27):
        pytest.skip("an older kubectl needs --validate=false")
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    section = readme.partition("Save these lines as `play.sh`:")[2]
    lines = section.partition("```sh\n")[2].partition("```")[0]
    (tmp_path / "play.sh").write_text(lines)
    played = subprocess.run(
        [
            *(sys.executable, "-m", "controller_manager", "devcluster", "--port=0"),
            *("--pod-start-delay=100ms", "--", "sh", "-e", "play.sh"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert (played.returncode, played.stderr) == (0, "")
    assert "deployment.apps/web rolled back" in played.stdout
    assert played.stdout.endswith('deployment.apps "web" deleted\n')
