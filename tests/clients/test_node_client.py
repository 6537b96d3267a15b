"""The official client for Node works on the development cluster."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controller_manager.devcluster.testing import DevelopmentCluster
from controller_manager.version import KUBERNETES_VERSION

pytestmark = pytest.mark.slow

PACKAGE = Path(sys.prefix, "node", "node_modules", "@kubernetes", "client-node")
"""Where ``.ci/run`` installs it."""


def test_the_client_for_node_creates_patches_and_watches(
    clients_cluster: DevelopmentCluster,
) -> None:
    """It sends each type of patch, and decodes bookmarks and refusals."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on the PATH")
    if not PACKAGE.exists():
        pytest.skip(f"npm has not installed @kubernetes/client-node in {PACKAGE}")
    with clients_cluster.namespace("node") as namespace:
        played = subprocess.run(
            [
                *(node, Path(__file__).with_name("play_node.mjs")),
                *(PACKAGE / "dist" / "index.js", namespace),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=clients_cluster.environment(),
        )
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout) == {
        "version": KUBERNETES_VERSION,
        "nodes": ["node-0", "node-1"],
        "created": {"a": "1"},
        "again": [409, "AlreadyExists"],
        "json": {"a": "2"},
        "merged": {"a": "2", "b": "1"},
        "applied": {"a": "1"},
        "watched": [["ADDED", "a"], ["ADDED", "b"], ["BOOKMARK", ""]],
        "gone": [404, "NotFound"],
        "left": 0,
    }
