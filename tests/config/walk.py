"""Walks through pages: each command as it stands there, in its order."""

import asyncio
import os
import re
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from controller_manager.client.rest.client import Client
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.devcluster.admission import ON_BY_DEFAULT
from controller_manager.devcluster.cluster import ClusterOptions, DevCluster
from controller_manager.devcluster.http_server import ClusterKeys
from controller_manager.registry import registry
from tests.config.control_plane import KUBERNETES, MANIFEST, write_control_plane
from tests.config.manifests import CONFIG
from tests.config.node import Node, running_node
from tests.documents.facts import ROOT
from tests.documents.markdown import Page
from tests.ports import free_port

_LIMIT: Final = 60.0
_STATIC_POD: Final = "https://127.0.0.1:10257"
_PREVIEW: Final = "https://127.0.0.1:10258"
"""The addresses on the pages: of the static pod, and of a port that is forwarded."""

_IN_VAIN: Final = ("--timeout=30s", "--timeout=1s")
"""The time-outs of waits that fail: those of the pages, and those of the tests."""

_PATH: Final = re.compile(r"\bpath: /etc/kubernetes")
"""The paths of the node in a manifest, not those of its container."""

_FAST_LEASE: Final = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=200ms",
)
"""Arguments of the cluster's kube-controller-manager, so that tests need not wait."""

_FETCH: Final = (
    "import ssl, sys, urllib.request as u; c = ssl._create_unverified_context(); "
    "print(u.urlopen(sys.argv[-1], context=c).read().decode(), end=str())"
)

STAND_INS: Final = {
    "sudo": 'exec "$@"',
    "docker": 'echo "docker $*" >> "$WALK/images"',
    "crictl": 'echo "crictl $*" >> "$WALK/images"',
    "controller-manager": f'exec {sys.executable} -m controller_manager "$@"',
}
"""Programs that are not on every machine, and what stands for them."""

_IF_MISSING: Final = {"curl": f"exec {sys.executable} -c '{_FETCH}' \"$@\""}
"""Stand-ins for programs that are not installed."""


def lines_of(page: Page, title: str) -> list[str]:
    return _lines(page.section(title).partition("\n#")[0])


def all_lines(page: Page) -> list[str]:
    return _lines(page.text)


def _lines(text: str) -> list[str]:
    blocks = Page(ROOT, text).blocks("sh")
    return [
        line
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip()
    ]


class Walk:
    """Runs commands in a checkout, on a control plane node."""

    def __init__(self, directory: Path, root: Path, ports: Mapping[str, int]) -> None:
        """Take an empty directory, the root of the node's files, and free ports.

        Each of the ports stands for an address on the pages.
        """
        self._directory = directory
        self._root = root
        self._ports = ports
        self.checkout = directory / "checkout"

    def prepare(self) -> None:
        """Copy what of the checkout commands change, and make the stand-ins."""
        self.checkout.mkdir()
        shutil.copytree(CONFIG, self.checkout / "config")
        shutil.copy(ROOT / "Dockerfile", self.checkout)
        programs = self._directory / "bin"
        programs.mkdir()
        missing = [name for name in _IF_MISSING if shutil.which(name) is None]
        scripts = {**STAND_INS, **{name: _IF_MISSING[name] for name in missing}}
        for name, script in scripts.items():
            path = programs / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    async def run(self, line: str, *, fails: bool = False) -> str:
        """Run a command of a page; return its standard output."""
        process = await self.start(line)
        async with asyncio.timeout(_LIMIT):
            output, errors = await process.communicate()
        shown = f"{line}\n{output.decode()}{errors.decode()}"
        assert (process.returncode != 0) is fails, shown
        return output.decode()

    async def start(self, line: str) -> asyncio.subprocess.Process:
        """Start a command of a page, with the node's paths and the free ports."""
        here = line.replace("/etc/kubernetes", str(self._root / KUBERNETES))
        for address, port in self._ports.items():
            here = here.replace(address, f"https://127.0.0.1:{port}")
        here = here.replace(*_IN_VAIN)
        return await asyncio.create_subprocess_exec(
            *("bash", "-eu", "-o", "pipefail", "-c", here),
            cwd=self.checkout,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{self._directory / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self._directory),
            "KUBECONFIG": str(self._root / KUBERNETES / "admin.conf"),
            "PYTHONPATH": str(ROOT),
            "WALK": str(self._directory),
        }

    def images(self) -> list[str]:
        return (self._directory / "images").read_text().splitlines()


class ControlPlane:
    """A cluster as kubeadm makes it, and somebody who follows a page there."""

    def __init__(self, walk: Walk, node: Node) -> None:
        """Take the parts."""
        self.walk = walk
        self.node = node
        self.followed: list[str] = []
        """The sections whose commands have been run."""

    async def follow(
        self, page: Page, title: str, fails: Collection[str] = ()
    ) -> list[str]:
        """Run each command of a section; return their output.

        Those that begin with one of `fails` end with an error.
        """
        printed = []
        self.followed.append(title)
        for line in lines_of(page, title):
            is_to_fail = line.startswith(tuple(fails))
            printed.append(await self.walk.run(line, fails=is_to_fail))
            await self.node.sync()
        return printed

    @property
    def root(self) -> Path:
        return self.node.root

    def manifest(self) -> str:
        return (self.root / MANIFEST).read_text()

    def saved(self) -> list[Path]:
        """Return what commands have left among the node's files."""
        known = {"admin.conf", "controller-manager.conf", "manifests", "pki"}
        files = (self.root / KUBERNETES).iterdir()
        return [each for each in files if each.name not in known]

    @asynccontextmanager
    async def without_static_pod(self) -> AsyncIterator[None]:
        """Take the manifest of the node's controller manager away while entered."""
        manifest = self.root / MANIFEST
        aside = manifest.rename(self.root / "aside")
        await self.node.sync()
        try:
            yield
        finally:
            aside.rename(manifest)
            await self.node.sync()


@asynccontextmanager
async def control_plane(directory: Path) -> AsyncIterator[ControlPlane]:
    """Run a cluster with roles, and a kube-controller-manager that leads."""
    keys, root = ClusterKeys.generate(), directory / "node"
    options = ClusterOptions(
        nodes=3,
        rbac=True,
        build=registry(),
        keys=keys,
        pod_start_delay=0.05,
        grace_scale=0,
        admission_plugins=ON_BY_DEFAULT,
    )
    ports = {_STATIC_POD: free_port(), _PREVIEW: free_port()}
    async with DevCluster(options, SystemClock()) as cluster:
        flags = [f"--secure-port={ports[_STATIC_POD]}", "--v=2", *_FAST_LEASE]
        write_control_plane(root, cluster, keys, flags)
        manifest = root / MANIFEST
        text = _PATH.sub(f"path: {root / KUBERNETES}", manifest.read_text())
        manifest.write_text(text)
        walk = Walk(directory, root, ports)
        walk.prepare()
        await walk.run(
            "kubectl label node node-0 node-role.kubernetes.io/control-plane="
        )
        await walk.run(
            "kubectl taint node node-0 node-role.kubernetes.io/control-plane:NoSchedule"
        )
        transport = HTTPTransport(cluster.credentials(), "test")
        client = Client(transport, SystemClock())
        try:
            async with running_node(root, cluster, client, ports[_PREVIEW]) as node:
                yield ControlPlane(walk, node)
        finally:
            await transport.close()
