"""Read config/ for tests: files, the objects that kustomize builds, arguments."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.cli.flags import make_config as parsed
from controller_manager.devcluster.scheme.patches import json_patch
from controller_manager.options.config import Config

CONFIG: Final = Path(__file__).parents[2] / "config"
BASE: Final = CONFIG / "base"
BESIDE: Final = CONFIG / "overlays" / "beside-kube-controller-manager"
STAND_BY: Final = BESIDE / "1-stand-by"
TAKE_OVER: Final = BESIDE / "2-take-over"
MONITORING: Final = CONFIG / "monitoring"
STATIC_POD: Final = CONFIG / "static-pod"
STATIC_POD_PATCH: Final = STATIC_POD / "patches" / "kube-controller-manager+json.yaml"

KUBEADM: Final = CONFIG.parent / "tests/data/kubeadm-kube-controller-manager.yaml"
"""The manifest that kubeadm writes."""


def documents(path: Path) -> Iterator[JSON]:
    for document in yaml.safe_load_all(path.read_text()):
        if isinstance(document, dict):
            yield document


def kustomization(directory: Path) -> JSON:
    (found,) = documents(directory / "kustomization.yaml")
    return found


def patch_operations(path: Path) -> list[JSON]:
    operations: list[JSON] = yaml.safe_load(path.read_text())
    return operations


def trial() -> JSON:
    (found,) = documents(BASE / "deployment.yaml")
    return found


def standing_by() -> JSON:
    (found,) = documents(STAND_BY / "daemon-set.yaml")
    return found


def taking_over() -> JSON:
    patch = patch_operations(TAKE_OVER / "controllers.yaml")
    found: JSON = json_patch(standing_by(), patch)
    return found


def static_pod() -> JSON:
    (kubeadm,) = documents(KUBEADM)
    found: JSON = json_patch(kubeadm, patch_operations(STATIC_POD_PATCH))
    return found


WAYS: Final = {
    "trial": trial,
    "stand-by": standing_by,
    "take-over": taking_over,
    "static-pod": static_pod,
}


def pod_of(document: JSON) -> JSON:
    spec: JSON = document["spec"]
    return spec["template"]["spec"] if "template" in spec else spec


def container_of(document: JSON) -> JSON:
    (container,) = pod_of(document)["containers"]
    found: JSON = container
    return found


def arguments_of(document: JSON) -> list[str]:
    container = container_of(document)
    found: list[str] = container.get("args") or container["command"][1:]
    return found


def config_of(arguments: list[str]) -> Config:
    flags: dict[str, tuple[str, ...]] = {}
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        flags[name] = (*flags.get(name, ()), value)
    return parsed(flags, [])
