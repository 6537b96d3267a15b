"""The static pod runs with the files that kubeadm has, their owners and their modes."""

import asyncio
import signal
import subprocess
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import pytest

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.json_objects import JSON
from controller_manager.client.leadership.leader_election import is_of_this_program
from controller_manager.client.rest.client import Client
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import ClusterOptions, DevCluster
from controller_manager.devcluster.http_server import ClusterKeys
from controller_manager.devcluster.scheme.patches import json_patch
from controller_manager.registry import registry
from tests.config.control_plane import MANIFEST, write_control_plane
from tests.config.manifests import (
    CONFIG,
    KUBEADM,
    STATIC_POD_PATCH,
    arguments_of,
    container_of,
    documents,
    patch_operations,
    pod_of,
    static_pod,
)
from tests.config.sandbox import program, sandboxed, why_not
from tests.ports import free_port
from tests.robustness.situation import until

like_kubeadm: Final = pytest.mark.skipif(bool(why_not()), reason=why_not())

OTHER_USER: Final = 65532
"""The user of the image, who owns nothing on the node."""

ROBOT: Final = {
    "ServiceAccount": {},
    "Secret": {
        "type": "kubernetes.io/service-account-token",
        "annotations": {"kubernetes.io/service-account.name": "robot"},
    },
}


def test_it_is_kubeadms_pod_but_for_what_the_patch_says() -> None:
    (kubeadm,) = documents(KUBEADM)
    ours = static_pod()
    assert ours["metadata"] == kubeadm["metadata"]
    assert arguments_of(ours) == arguments_of(kubeadm)
    assert container_of(ours)["command"][0] == "controller-manager"
    changed = {"command", "image", "resources", "volumeMounts"}
    new = {"readinessProbe", "securityContext"}
    before, after = container_of(kubeadm), container_of(ours)
    assert {key for key in after if after[key] != before.get(key)} == changed | new
    assert {
        key for key in ours["spec"] if ours["spec"][key] != kubeadm["spec"][key]
    } == {"containers", "volumes"}


def test_it_sees_the_files_that_its_flags_name_and_no_others() -> None:
    pod = pod_of(static_pod())
    named = {
        value
        for each in arguments_of(static_pod())
        if (value := each.partition("=")[2]).startswith("/")
    }
    mounts = {each["name"]: each for each in container_of(static_pod())["volumeMounts"]}
    files = {
        each["name"]: each["hostPath"] for each in pod["volumes"] if "hostPath" in each
    }
    assert {each["path"] for each in files.values()} == named
    assert {each["type"] for each in files.values()} == {"File"}
    assert {
        (mounts[name]["mountPath"], mounts[name]["readOnly"]) for name in files
    } == {(path, True) for path in named}
    (written,) = [each for each in pod["volumes"] if each["name"] not in files]
    assert written == {
        "name": "tmp",
        "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"},
    }
    assert mounts["tmp"] == {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 - a mount
    assert len(mounts) == len(pod["volumes"])


class Node:
    def __init__(self, root: Path, cluster: DevCluster, client: Client) -> None:
        self.root = root
        self.cluster = cluster
        self.client = client

    def pod(self) -> JSON:
        (kubeadm,) = documents(self.root / MANIFEST)
        patched: JSON = json_patch(kubeadm, patch_operations(STATIC_POD_PATCH))
        return patched

    @contextmanager
    def running(self, user: int | None = None) -> Iterator["subprocess.Popen[str]"]:
        mounts = self.root / "container"
        mounts.mkdir()
        pod = self.pod()
        command = sandboxed(pod, self.root, mounts, program(arguments_of(pod)), user)
        with self._log.open("w") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, text=True
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    @property
    def _log(self) -> Path:
        return self.root / "log"

    def log(self) -> str:
        return self._log.read_text()


@asynccontextmanager
async def control_plane(root: Path) -> AsyncIterator[Node]:
    """Run an API server with roles, beside the files of kubeadm."""
    keys = ClusterKeys.generate()
    options = ClusterOptions(nodes=0, rbac=True, build=registry(), keys=keys)
    async with DevCluster(options, SystemClock()) as cluster:
        flags = [f"--secure-port={free_port()}", "--v=2"]
        write_control_plane(root, cluster, keys, flags)
        transport = HTTPTransport(cluster.credentials(), "test")
        try:
            yield Node(root, cluster, Client(transport, SystemClock()))
        finally:
            await transport.close()


@pytest.mark.slow
@like_kubeadm
async def test_it_runs_with_kubeadms_files_and_without_capabilities(
    tmp_path: Path,
) -> None:
    async with control_plane(tmp_path) as node:
        with node.running() as process:
            await until(lambda: "Starting controller" in node.log(), 60, "a leader")
            status = status_of(process)
            (lease,) = (await node.client.list_page(LEASES)).items
            for kind, parts in ROBOT.items():
                _add(node.cluster, kind, "robot", parts)
            await until(lambda: bool(_signed(node.cluster)), 30, "a token")
            token = _signed(node.cluster)
            process.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(process.wait, 30)
        (released,) = (await node.client.list_page(LEASES)).items
    assert code == 0
    assert "CapEff:\t0000000000000000" in status
    assert _resident_mebibytes(status) < _requested_mebibytes(node.pod())
    assert "Uid:\t0\t0\t0\t0" in status
    assert lease.metadata.name == "kube-controller-manager"
    assert is_of_this_program(lease.spec.holder_identity or "")
    assert token.count(".") == 2
    assert not released.spec.holder_identity


def _add(cluster: DevCluster, kind: str, name: str, parts: JSON) -> None:
    found = cluster.server.catalogue.of("v1", kind)
    assert found is not None
    annotations = parts.get("annotations", {})
    metadata = {"name": name, "annotations": annotations}
    more = {key: value for key, value in parts.items() if key != "annotations"}
    cluster.server.objects.create(found, "default", {"metadata": metadata, **more})


def status_of(process: "subprocess.Popen[str]") -> str:
    return Path(f"/proc/{process.pid}/status").read_text()


def _resident_mebibytes(status: str) -> float:
    (line,) = [each for each in status.splitlines() if each.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def _requested_mebibytes(pod: JSON) -> int:
    requested: str = container_of(pod)["resources"]["requests"]["memory"]
    return int(requested.removesuffix("Mi"))


def _signed(cluster: DevCluster) -> str:
    secret = cluster.server.storage.collection("secrets").get(("default", "robot"))
    assert secret is not None
    return b64decode(secret.obj.get("data", {}).get("token", "")).decode()


@pytest.mark.slow
@like_kubeadm
async def test_its_container_writes_to_memory_only(tmp_path: Path) -> None:
    """As the runtime sets it up: the rest of the node is not there."""
    probe = """
        for each in /x /etc/x /etc/kubernetes/x /etc/kubernetes/pki/x /var/x; do
            touch $each 2>/dev/null && echo wrote $each
        done
        echo >> /etc/kubernetes/pki/ca.key && echo wrote ca.key
        touch /tmp/x && stat -f -c %T /tmp
        cd /etc/kubernetes && find . -type f | sort
        cat pki/sa.key | head -1
    """
    async with control_plane(tmp_path) as node:
        mounts = tmp_path / "container"
        mounts.mkdir()
        command = sandboxed(node.pod(), tmp_path, mounts, ["sh", "-c", probe])
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE
        )
        shown, _ = await process.communicate()
    assert shown.decode().splitlines() == [
        "tmpfs",
        "./controller-manager.conf",
        "./pki/ca.crt",
        "./pki/ca.key",
        "./pki/front-proxy-ca.crt",
        "./pki/sa.key",
        "-----BEGIN PRIVATE KEY-----",
    ]


@pytest.mark.slow
@like_kubeadm
async def test_as_another_user_it_ends_with_the_name_of_the_file(
    tmp_path: Path,
) -> None:
    """Root's files are readable by their owner only: that is why it runs as root."""
    async with control_plane(tmp_path) as node:
        with node.running(OTHER_USER) as process:
            code = await asyncio.to_thread(process.wait, 30)
    assert code == 1
    (line,) = node.log().splitlines()
    assert "/etc/kubernetes/controller-manager.conf" in line
    assert "is not readable" in line


@pytest.mark.slow
@like_kubeadm
async def test_the_doctors_job_examines_a_control_plane_and_can_write_nothing(
    tmp_path: Path,
) -> None:
    """It finds the flags in the manifest of the node, and reads what only root may."""
    (job,) = documents(CONFIG / "doctor" / "job.yaml")
    pod = {"spec": pod_of(job)}
    mounts = tmp_path / "container"
    mounts.mkdir()
    async with control_plane(tmp_path) as node:
        command = sandboxed(pod, node.root, mounts, program(arguments_of(job)))
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE
        )
        shown, _ = await process.communicate()
    lines = [" ".join(line.split()) for line in shown.decode().splitlines()]
    assert [line for line in lines if not line.startswith("ok")] == []
    assert "ok keys 6 files can be read and used" in lines
    assert "ok own pod this process runs in no pod" in lines
    assert process.returncode == 0
