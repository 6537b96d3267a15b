"""A reader who follows the pages to the letter swaps managers, forwards and back."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from controller_manager.client.leadership.leader_election import is_of_this_program
from tests.config import sections
from tests.config.control_plane import MANIFEST
from tests.config.node import IMAGE
from tests.config.walk import ControlPlane, control_plane, lines_of
from tests.distributions import completed
from tests.documents.facts import ROOT
from tests.e2e.clusters import KUBECTL, running_cluster

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]

ROLLOUT: Final = "kubectl -n controller-manager-system rollout"
DEPLOYMENT: Final = "deployment/controller-manager"
TRIAL: Final = "system:serviceaccount:controller-manager-system:controller-manager"
LEASES: Final = "kubectl get leases -A -o jsonpath='{.items[*].spec.holderIdentity}'"
LEFT: Final = "namespaces,clusterroles,clusterrolebindings,roles,rolebindings,leases"
CHECK: Final = "kubectl create deployment check --image=registry.k8s.io/pause:3.10"
AVAILABLE: Final = "kubectl rollout status deployment/check --timeout=1m"
ONE_SCENARIO: Final = "replica-set-heals"
MOVED: Final = ("deployment-controller", "replicaset-controller")
STATIC: Final = "static pod"
BESIDE: Final = "controller-manager-beside"

EVERYWHERE: Final = {
    "tokenreviews.authentication.k8s.io  [create]",
    "subjectaccessreviews.authorization.k8s.io  [create]",
    "namespaces  [list watch]",
    "serviceaccounts  [list watch]",
    "jobs.batch  [list watch]",
}
IN_KUBE_SYSTEM: Final = (EVERYWHERE - {"serviceaccounts  [list watch]"}) | {
    "serviceaccounts  [list watch create]",
    "serviceaccounts/token  []  [service-account-controller]  [create]",
    "serviceaccounts/token  []  [ttl-after-finished-controller]  [create]",
    "configmaps  []  [extension-apiserver-authentication]  [get list watch]",
}
"""The rights of the trial's account, without those of every account."""


@asynccontextmanager
async def walking(test: str, directory: Path) -> AsyncIterator[ControlPlane]:
    """Run a cluster for a test; it must follow the sections that `WALKS` says."""
    async with control_plane(directory) as plane:
        yield plane
        assert plane.followed == [title for _, title in sections.WALKS[test]]


def allowed(table: str) -> set[str]:
    """Return the rows of ``auth can-i --list`` that are not everybody's."""
    rows = [re.sub(r" {2,}", "  ", line).strip() for line in table.splitlines()[1:]]
    return {
        row.replace("  []  []", "")
        for row in rows
        if row and not row.startswith(("[/", "self"))
    }


async def test_the_trial_comes_and_goes(tmp_path: Path) -> None:
    async with walking("test_the_trial_comes_and_goes", tmp_path) as plane:
        await plane.follow(sections.OPERATIONS, "Build the image")
        assert plane.walk.images() == [
            f"docker build --tag {IMAGE} .",
            f"docker push {IMAGE}",
        ]
        await plane.follow(sections.OPERATIONS, "Versions of the API server")
        *_, everywhere, in_kube_system = await plane.follow(
            sections.OPERATIONS, "Try it"
        )
        assert allowed(everywhere) == EVERYWHERE
        assert allowed(in_kube_system) == IN_KUBE_SYSTEM
        for refused in ("get secrets -A", "-n kube-system create token token-cleaner"):
            await plane.walk.run(f"kubectl {refused} --as={TRIAL}", fails=True)
        # Only two nodes are free for its two pods.
        await plane.walk.run(f"{ROLLOUT} restart {DEPLOYMENT}")
        await plane.walk.run(f"{ROLLOUT} status {DEPLOYMENT} --timeout=1m")
        async with plane.without_static_pod():
            await plane.walk.run("kubectl create namespace fresh")
            await plane.walk.run(
                "kubectl -n fresh wait --for=create serviceaccount/default"
            )
        await plane.follow(sections.OPERATIONS, "End the trial")
        left = await plane.walk.run(f"kubectl get {LEFT} -A -o name")
    assert "/controller-manager" not in left


async def test_two_controllers_move_and_come_back(tmp_path: Path) -> None:
    async with walking("test_two_controllers_move_and_come_back", tmp_path) as plane:
        await plane.walk.run(CHECK)
        await plane.walk.run(AVAILABLE)
        await plane.follow(sections.OPERATIONS, "Build the image")
        await plane.follow(sections.OPERATIONS, "Move two controllers")
        await plane.walk.run("kubectl delete pods -l app=check --wait=false")
        await plane.walk.run(AVAILABLE)
        await plane.walk.run(
            "kubectl -n controller-manager-beside delete pods --all --wait=false"
        )
        await plane.walk.run(
            "kubectl -n controller-manager-beside rollout status "
            "daemonset/controller-manager --timeout=1m"
        )
        await plane.follow(sections.OPERATIONS, "Give the two controllers back")
        left = await plane.walk.run(f"kubectl get {LEFT} -A -o name")
        writers = [plane.node.writers[each] for each in MOVED]
        saved = plane.saved()
    assert writers == [[STATIC, BESIDE, STATIC]] * 2
    assert "/controller-manager" not in left
    assert saved == []


async def test_kube_controller_manager_is_replaced_and_comes_back(
    tmp_path: Path,
) -> None:
    test = "test_kube_controller_manager_is_replaced_and_comes_back"
    async with walking(test, tmp_path) as plane:
        before = plane.manifest()
        await plane.follow(sections.OPERATIONS, "Build the image")
        printed = await plane.follow(
            sections.OPERATIONS, "Replace kube-controller-manager"
        )
        assert "ok" in printed
        assert plane.walk.images()[-1] == f"crictl pull {IMAGE}"
        leads = [is_of_this_program(printed[-1])]
        *_, shown = await plane.follow(sections.TROUBLESHOOTING, "Look first")
        assert shown.endswith("readyz check passed\n")
        *printed, _ = await plane.follow(
            sections.OPERATIONS, "Give kube-controller-manager its place back"
        )
        leads.append(is_of_this_program(printed[-1]))
        after, saved = plane.manifest(), plane.saved()
    assert leads == [True, False]
    assert (after, saved) == (before, [])


async def test_the_swap_in_five_steps_goes_there_and_back(tmp_path: Path) -> None:
    test = "test_the_swap_in_five_steps_goes_there_and_back"
    async with walking(test, tmp_path) as plane:
        before = plane.manifest()
        await plane.follow(sections.OPERATIONS, "Build the image")
        _, found = await plane.follow(sections.SWAP, "1. Doctor")
        *_, report = await plane.follow(sections.SWAP, "2. Preview")
        await plane.follow(sections.SWAP, "3. Swap")
        _, holder = await plane.follow(sections.SWAP, "4. Look")
        await plane.follow(sections.SWAP, "5. Back")
        after = plane.manifest()
    levels = {line.partition(" ")[0] for line in found.splitlines()}
    assert levels == {"ok"}
    assert ": 0 divergences, " in report
    assert is_of_this_program(holder)
    assert after == before


async def test_a_saved_manifest_brings_the_controllers_back(tmp_path: Path) -> None:
    test = "test_a_saved_manifest_brings_the_controllers_back"
    async with walking(test, tmp_path) as plane:
        await plane.follow(sections.OPERATIONS, "Build the image")
        await plane.follow(sections.OPERATIONS, "Move two controllers")
        (plane.root / MANIFEST).unlink()
        await plane.node.sync()
        await plane.walk.run("kubectl -n controller-manager-beside delete pods --all")
        await plane.follow(sections.RECOVERY, "See it", fails=["kubectl wait"])
        await plane.follow(sections.RECOVERY, "Put the saved manifest back")
        writers = [plane.node.writers[each] for each in MOVED]
    assert writers == [[BESIDE, STATIC]] * 2


async def test_controllers_run_from_a_shell(tmp_path: Path) -> None:
    """With the administrator's kubeconfig, until Ctrl-C; they release the lease."""
    test = "test_controllers_run_from_a_shell"
    async with walking(test, tmp_path) as plane:
        titles = [title for _, title in sections.WALKS[test]]
        await plane.walk.run("kubectl create namespace controller-manager-beside")
        async with plane.without_static_pod():
            for number, title in enumerate(titles):
                (command,) = lines_of(sections.RECOVERY, title)
                await _runs_until_interrupted(plane, command, f"check-{number}")
                plane.followed.append(title)
        leases = await plane.walk.run(LEASES)
    assert not is_of_this_program(leases)


async def _runs_until_interrupted(
    plane: ControlPlane, command: str, deployment: str
) -> None:
    """Check that pods come while a command runs, and that it ends as it should."""
    process = await plane.walk.start(command)
    for check in (CHECK, AVAILABLE):
        await plane.walk.run(check.replace("check", deployment))
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(30):
        _, log = await process.communicate()
    assert process.returncode == 0, log.decode()


def test_the_recordings_are_played_on_a_cluster(tmp_path: Path) -> None:
    """One of them stands for all, which take minutes."""
    (_, title) = sections.WALKS["test_the_recordings_are_played_on_a_cluster"][0]
    flags = ("--without-controllers", "--nodes=0")
    with running_cluster(tmp_path, *flags) as kubeconfig:
        (tmp_path / ".kube").mkdir()
        shutil.copy(kubeconfig, tmp_path / ".kube" / "config")
        for line in lines_of(sections.TESTING, title):
            # Other tests may use the default port.
            here = line.replace("devcluster ", "devcluster --port=0 ")
            environment = {
                **os.environ,
                "HOME": str(tmp_path),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "PYTEST_ADDOPTS": f"-k {ONE_SCENARIO} -p no:cacheprovider",
            }
            played = completed("bash", "-c", here, cwd=ROOT, env=environment)
            assert "1 passed" in played.stdout, played.stdout + played.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as on a node")
@pytest.mark.skipif(shutil.which("pgrep") is None, reason="no pgrep on PATH")
def test_profiles_are_taken_from_outside(tmp_path: Path) -> None:
    """Of a daemon that is told by its command line, as in the image."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "controller-manager"
    program.write_text("from controller_manager.__main__ import main\n\nmain()\n")
    # Other tests may run daemons, too.
    pgrep = f'#!/bin/sh\nexec {shutil.which("pgrep")} -P {os.getpid()} "$@"\n'
    (programs / "pgrep").write_text(pgrep)
    (programs / "pgrep").chmod(0o755)
    paths = (programs, Path(sys.executable).parent, os.environ["PATH"])
    environment = {
        **os.environ,
        "PATH": ":".join(map(str, paths)),
        "PYTHONPATH": str(ROOT),
    }
    flags = ("--without-controllers", "--nodes=0")
    with running_cluster(tmp_path, *flags) as kubeconfig:
        daemon = subprocess.Popen(
            [sys.executable, program, f"--kubeconfig={kubeconfig}", "--secure-port=0"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert daemon.stderr is not None
            assert any("Caches are synced" in line for line in daemon.stderr)
            _, title = sections.WALKS["test_profiles_are_taken_from_outside"][0]
            shown = [
                subprocess.run(
                    ["bash", "-euc", line.replace("--duration 10", "--duration 3")],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                for line in lines_of(sections.REFERENCE, title)
            ]
        finally:
            daemon.terminate()
            daemon.communicate()
    assert "<svg" in (tmp_path / "profile.svg").read_text()
    assert "(controller_manager/cli/daemon.py:" in shown[-1]
