"""Plays all scenarios: ``python -m tests.clients.play CLIENT NAMESPACE``.

It prints what came of each scenario. It runs as a process of its own, because not every
client closes its connections before its event loop ends, and because the clients find
the cluster by the environment variable KUBECONFIG, as those of users do.
"""

import importlib
import json
import sys
import traceback
from typing import Any

from tests.clients.client import Client, NotInThisClientError
from tests.clients.scenarios import SCENARIOS

MISSING = "not in this client"


def play(client: Client) -> dict[str, Any]:
    """Return what came of each scenario; an error is told with its traceback."""
    found: dict[str, Any] = {}
    for name, scenario in SCENARIOS.items():
        try:
            found[name] = scenario.play(client)
        except NotInThisClientError:
            found[name] = MISSING
        except Exception:  # noqa: BLE001 - the others are played all the same
            found[name] = traceback.format_exc().splitlines()
    return found


def main() -> None:
    """Play with the client that the arguments name."""
    name, namespace = sys.argv[1:]
    module = importlib.import_module(f"tests.clients.with_{name}")
    client: Client = module.connect(namespace)
    try:
        json.dump(play(client), sys.stdout)
    finally:
        client.close()


if __name__ == "__main__":
    main()
