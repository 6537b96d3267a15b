"""A user asks a daemon that runs with ``--preview`` over HTTPS for its report."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from controller_manager.preview.report import Report
from tests.controllers.builders import deployment_json
from tests.robustness.cluster import FaultyCluster, faulty_cluster
from tests.robustness.daemon import Daemon, run_daemon

pytestmark = pytest.mark.slow

_READS = ("GET", "HEAD")
_CONTROLLERS = "--controllers=deployment-controller,replicaset-controller"


async def _asked(daemon: Daemon, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "controller_manager", "preview", "report"]
    command += [f"--server=https://127.0.0.1:{daemon.port}", *arguments]
    found = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
    )
    return found.returncode, found.stdout, found.stderr


def _writes(cluster: FaultyCluster) -> list[str]:
    return [
        f"{each.method} {each.path}"
        for each in cluster.requests
        if each.method not in _READS and "reviews" not in each.path
    ]


async def test_the_report_of_a_daemon_has_an_exit_code(tmp_path: Path) -> None:
    """No manager is in charge, so each write of the preview is a difference."""
    token = tmp_path / "token"
    flags = ("--preview", "--preview-grace=2s", "--leader-elect=false", _CONTROLLERS)
    async with faulty_cluster() as cluster:
        token.write_text(cluster.token)
        given = (f"--token-file={token}", "--insecure-skip-tls-verify")
        async with run_daemon(cluster.kubeconfig, tmp_path, *flags) as daemon:
            await daemon.until_it_leads()
            code, output, _ = await _asked(daemon, *given)
            assert (code, output.partition(": ")[0][:13]) == (0, "Preview since")
            assert ": 0 divergences, " in output

            path = "/apis/apps/v1/namespaces/default/deployments"
            await cluster.create(path, deployment_json("web", replicas=1))
            shown = "The preview differs from the manager in charge"
            await daemon.until_logged(shown)
            code, output, _ = await _asked(daemon, *given)
            assert code == 3
            assert "only the preview (found 1 times since " in output
            begin = output.partition(" at ")[0]
            code, output, _ = await _asked(daemon, *given, "--output=json")
            report = msgspec.json.decode(output, type=Report)
            assert code == 3
            assert {(each.controller, each.only) for each in report.divergences} >= {
                ("deployment-controller", "preview")
            }
            status, page = await daemon.get("/debug/preview", as_admin=True)
            assert (status, page.partition(" at ")[0]) == (200, begin)

            assert _writes(cluster) == []
            assert cluster.stored("replicasets.apps", "default") == []
            await _is_refused(daemon, token)


async def _is_refused(daemon: Daemon, token: Path) -> None:
    """Check the answers to a user without rights, and to one who trusts nothing."""
    unknown = token.with_name("unknown")
    unknown.write_text("unknown")
    server = f"https://127.0.0.1:{daemon.port}"
    insecure = "--insecure-skip-tls-verify"
    for arguments, problem in (
        ((insecure,), f"{server}: answered 403: "),
        ((insecure, f"--token-file={unknown}"), f"{server}: answered 401: "),
        ((f"--token-file={token}",), f"{server}: no answer: "),
    ):
        code, output, errors = await _asked(daemon, *arguments)
        assert (code, output, len(errors.splitlines())) == (1, "", 1), errors
        assert problem in errors


async def test_a_daemon_that_writes_has_no_report(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with faulty_cluster() as cluster:
        token.write_text(cluster.token)
        async with run_daemon(
            cluster.kubeconfig, tmp_path, "--leader-elect=false", _CONTROLLERS
        ) as daemon:
            await daemon.until_it_leads()
            code, _, errors = await _asked(
                daemon, f"--token-file={token}", "--insecure-skip-tls-verify"
            )
            assert code == 1
            assert errors.endswith(": this daemon does not run with --preview\n")
