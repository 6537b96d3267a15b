"""Python client libraries work on the development cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controller_manager.version import KUBERNETES_VERSION

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "client", ["kubernetes", "kubernetes_asyncio", "kr8s", "pykube"]
)
def test_a_client_asks_for_the_version_lists_nodes_and_deletes(
    client: str, kubeconfig: Path
) -> None:
    """Four separate projects, each in its own way."""
    played = subprocess.run(
        [sys.executable, "-m", "tests.clients.play", client, str(kubeconfig)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout) == {
        "version": KUBERNETES_VERSION,
        "nodes": ["node-0", "node-1"],
        "left": [],
    }
