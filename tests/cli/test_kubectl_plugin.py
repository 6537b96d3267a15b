"""kubectl finds ``explain`` as a plugin, by the name of its script."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from controller_manager.devcluster.testing import ClusterSettings
from controller_manager.devcluster.testing.cluster import DevelopmentCluster
from tests.documents.facts import ROOT

KUBECTL = shutil.which("kubectl") or ""


def _install(directory: Path) -> None:
    """Write the script that pip makes of the entry point."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["kubectl-why"].partition(":")
    script = directory / "kubectl-why"
    script.write_text(
        f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n"
    )
    script.chmod(0o755)


@pytest.mark.slow
@pytest.mark.skipif(not KUBECTL, reason="no kubectl on PATH")
def test_kubectl_why_explains_an_object(tmp_path: Path) -> None:
    """The plugin gets all words after its name, and kubectl returns its exit code."""
    _install(tmp_path)
    settings = ClusterSettings(nodes=0, controllers=("serviceaccount-controller",))
    with DevelopmentCluster(settings) as cluster:
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(cluster.kubeconfig),
        }

        def why(*words: str) -> tuple[int, str, str]:
            done = subprocess.run(
                (KUBECTL, "why", *words),
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            return done.returncode, done.stdout, done.stderr

        assert [why("ns", "default"), why("flower/rose"), why("cm", "-A")] == [
            (0, "Namespace default is healthy: nothing is wrong\n", ""),
            (
                1,
                "",
                'Error: explain: the server doesn\'t have a resource type "flower"\n',
            ),
            (0, "Nothing is wrong with cm in all namespaces.\n", ""),
        ]
        assert why("-h")[1].startswith("Usage: kubectl why [OPTIONS] KIND[/NAME]...\n")
