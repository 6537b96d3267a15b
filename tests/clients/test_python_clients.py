"""Every Python client library works on the development cluster, in all scenarios."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controller_manager.devcluster.testing import DevelopmentCluster
from tests.clients.play import MISSING
from tests.clients.scenarios import SCENARIOS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LACKS = {
    "kubernetes": [],
    "kubernetes_asyncio": [],
    "lightkube": ["version"],
    "kr8s": ["apply", "expired_watch", "pages", "replace", "strategic_patch"],
}
"""The scenarios for which a client library has no way."""


@pytest.mark.parametrize("client", LACKS)
def test_a_client_library_plays_all_scenarios(
    client: str, clients_cluster: DevelopmentCluster
) -> None:
    """It creates, reads, patches, watches and deletes, and knows every kind."""
    with clients_cluster.namespace(client.replace("_", "-")) as namespace:
        played = subprocess.run(
            [sys.executable, "-m", "tests.clients.play", client, namespace],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=ROOT,
            env=clients_cluster.environment(),
        )
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout) == {
        name: MISSING if name in LACKS[client] else scenario.expected
        for name, scenario in SCENARIOS.items()
    }
