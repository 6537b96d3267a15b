"""The files of a control plane node that kubeadm made, with its owners and modes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from controller_manager.devcluster.cluster import DevCluster
from controller_manager.devcluster.http_server import ClusterKeys
from controller_manager.serving.certificates import self_signed
from tests.config.manifests import KUBEADM, container_of, documents

KUBERNETES: Final = Path("etc/kubernetes")
MANIFEST: Final = KUBERNETES / "manifests" / "kube-controller-manager.yaml"

_KEY: Final = 0o600
_CERTIFICATE: Final = 0o644
_OF_OTHERS: Final = (
    "apiserver",
    "apiserver-etcd-client",
    "apiserver-kubelet-client",
    "etcd/ca",
    "etcd/healthcheck-client",
    "etcd/peer",
    "etcd/server",
    "front-proxy-client",
)
"""Pairs of a certificate and a key that a controller manager has no business with."""


def write_control_plane(
    root: Path, cluster: DevCluster, keys: ClusterKeys, flags: Sequence[str] = ()
) -> None:
    """Write the files below `root`, as kubeadm writes them below ``/``.

    `flags` are extra arguments of kube-controller-manager in that cluster. Its probes
    begin at once. The owner is the user who runs the test: kubeadm's is root.
    """
    kubernetes = root / KUBERNETES
    (kubernetes / "pki" / "etcd").mkdir(parents=True, mode=0o755)
    (kubernetes / "manifests").mkdir(mode=0o700)
    pki = kubernetes / "pki"
    _write_pair(pki / "ca", keys.authority.certificate, keys.authority.key)
    _write(pki / "sa.key", keys.account_key_pem(), _KEY)
    _write(pki / "sa.pub", b"public\n", _KEY)
    front = self_signed("front-proxy-ca", ["localhost"])
    _write_pair(pki / "front-proxy-ca", front.certificate, front.key)
    for name in _OF_OTHERS:
        _write_pair(pki / name, b"certificate\n", b"key\n")
    config = cluster.kubeconfig()
    admin, manager = (each["name"] for each in config["contexts"])
    for name, context in (("admin", admin), ("controller-manager", manager)):
        chosen = {**config, "current-context": context}
        _write(kubernetes / f"{name}.conf", _yaml(chosen), _KEY)
    (manifest,) = documents(KUBEADM)
    container = container_of(manifest)
    container["command"] += flags
    for probe in ("livenessProbe", "startupProbe"):
        del container[probe]["initialDelaySeconds"]
    _write(root / MANIFEST, _yaml(manifest), _KEY)


def _write_pair(path: Path, certificate: bytes, key: bytes) -> None:
    _write(path.with_suffix(".crt"), certificate, _CERTIFICATE)
    _write(path.with_suffix(".key"), key, _KEY)


def _write(path: Path, content: bytes, mode: int) -> None:
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_bytes(content)


def _yaml(document: dict[str, Any]) -> bytes:
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text.encode()
