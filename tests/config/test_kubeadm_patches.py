"""kubeadm applies our patches to the manifest that it writes at an upgrade."""

from pathlib import Path

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.patches import json_patch
from controller_manager.registry import registry
from tests.config import manifests

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
