"""Kustomizations, and the patches of kubeadm."""

import shutil
from pathlib import Path

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.patches import json_patch
from controller_manager.registry import registry
from tests.config import manifests
from tests.distributions import completed

from .manifests import (
    BASE,
    KUBEADM,
    MONITORING,
    STAND_BY,
    STATIC_POD,
    TAKE_OVER,
    kustomization,
    static_pod,
)

TRIAL = MONITORING / "trial"
WORKLOADS = {
    BASE: 1,
    STAND_BY: 1,
    TAKE_OVER: 1,
    MONITORING: 0,
    TRIAL: 1,
    MONITORING / "operator": 0,
    MONITORING / "trial-operator": 0,
}
"""The number of deployments and daemon sets that each directory makes."""


def built(directory: Path) -> list[JSON]:
    """Return the objects that the kustomize in kubectl builds, if it has one."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl")
    result = completed(kubectl, "kustomize", str(directory))
    if "unknown command" in result.stderr:
        pytest.skip("this kubectl has no kustomize")
    assert result.returncode == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


@pytest.mark.parametrize("directory", WORKLOADS, ids=lambda path: path.name)
def test_a_kustomization_names_every_file_beside_it(directory: Path) -> None:
    found = kustomization(directory)
    named = [*found["resources"]]
    named += [each["path"] for each in found.get("patches", ())]
    named += [
        file for each in found.get("configMapGenerator", ()) for file in each["files"]
    ]
    assert [each for each in named if not (directory / each).exists()] == []
    files = {each.name for each in directory.iterdir() if each.is_file()}
    assert files - {"kustomization.yaml"} == {
        each for each in named if not each.startswith("..")
    }


@pytest.mark.parametrize("directory", WORKLOADS, ids=lambda path: path.name)
def test_kustomize_builds_it(directory: Path) -> None:
    objects = built(directory)
    kinds = [each["kind"] for each in objects]
    found = kinds.count("Deployment") + kinds.count("DaemonSet")
    assert found == WORKLOADS[directory]
    if directory in (BASE, STAND_BY, TAKE_OVER):
        assert "image: controller-manager:0.4.1" in yaml.safe_dump(objects)
        # A "namespace:" in a kustomization would move these, too.
        system = [
            each["kind"]
            for each in objects
            if each["metadata"].get("namespace") == "kube-system"
        ]
        assert system == ["Role", "RoleBinding", "RoleBinding"]


def test_the_monitored_trial_gets_its_certificate() -> None:
    """Everything else of monitoring stands in its own namespace."""
    (pod,) = (
        each["spec"]["template"]["spec"]
        for each in built(TRIAL)
        if each["kind"] == "Deployment"
    )
    (container,) = pod["containers"]
    assert container["args"][-2:] == [
        "--tls-cert-file=/etc/serving/tls.crt",
        "--tls-private-key-file=/etc/serving/tls.key",
    ]
    assert container["volumeMounts"][-1] == {
        "mountPath": "/etc/serving",
        "name": "serving",
        "readOnly": True,
    }
    assert pod["volumes"][-1] == {
        "name": "serving",
        "secret": {"defaultMode": 0o440, "secretName": "controller-manager-serving"},
    }
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


def test_the_patched_static_pod_is_built_from_kubeadms(tmp_path: Path) -> None:
    copied = tmp_path / "static-pod"
    shutil.copytree(STATIC_POD, copied)
    shutil.copy(KUBEADM, copied / "kube-controller-manager.yaml")
    assert built(copied) == [static_pod()]


BESIDE_PATCH = (
    manifests.BESIDE / "kubeadm-patches" / "kube-controller-manager+json.yaml"
)


def patched(path: Path) -> JSON:
    (kubeadm,) = manifests.documents(manifests.KUBEADM)
    found: JSON = json_patch(kubeadm, manifests.patch_operations(path))
    return found


def selected(document: JSON) -> set[str]:
    """Return the controllers that the arguments select, as upstream reads them."""
    generic = manifests.config_of(manifests.arguments_of(document)).generic
    return {each.name for each in registry().select(generic.controllers)}


def test_the_patches_have_the_names_by_which_kubeadm_finds_them() -> None:
    for path in (BESIDE_PATCH, manifests.STATIC_POD_PATCH):
        assert path.name == "kube-controller-manager+json.yaml"
        assert list(path.parent.iterdir()) == [path]


def test_kube_controller_manager_leaves_alone_what_the_daemon_set_runs() -> None:
    """And nothing else, although the flag stands there twice."""
    (kubeadm,) = manifests.documents(manifests.KUBEADM)
    moved = selected(manifests.taking_over())
    assert moved == {"deployment-controller", "replicaset-controller"}
    assert selected(patched(BESIDE_PATCH)) == selected(kubeadm) - moved


def test_the_static_pod_of_kubeadm_is_the_one_that_kustomize_builds() -> None:
    assert patched(manifests.STATIC_POD_PATCH) == manifests.static_pod()
