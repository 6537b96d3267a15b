"""The time in which a server handles large YAML and answers no other request.

This file runs as a program with the source of any cluster, and prints its figures.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from controller_manager.client.rest.transport import Request
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import ADMIN
from controller_manager.devcluster.controlplane import APIServer, add_system_namespaces

_MAPS: Final = "/api/v1/namespaces/default/configmaps"
_LINES: Final = 32_000
"""The number of keys in a config map of a megabyte."""


def measure_yaml(trees: Mapping[str, Path]) -> dict[str, dict[str, float]]:
    """Return the figures of the server in each source."""
    return {name: _measured(tree) for name, tree in trees.items()}


def _measured(tree: Path) -> dict[str, float]:
    # -P: `encodings.py` beside this file would hide the module that Python starts with.
    done = subprocess.run(
        (sys.executable, "-P", __file__),
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


async def _figures() -> dict[str, float]:
    server = APIServer(
        clock=SystemClock(), rng=random.SystemRandom(), users={"token": ADMIN}
    )
    add_system_namespaces(server.objects)
    data = {f"key-{number}": f"value {number}" for number in range(_LINES)}
    obj = {"kind": "ConfigMap", "metadata": {"name": "large"}, "data": data}
    headers = {
        "authorization": "Bearer token",
        "content-type": "application/yaml",
        "accept": "application/json",
    }
    text = yaml.safe_dump(obj).encode()
    write = Request("POST", _MAPS, headers=headers, body=text)
    shown = {**headers, "accept": "application/yaml"}
    read = Request("GET", f"{_MAPS}/large", headers=shown)
    other = json.dumps({**obj, "metadata": {"name": "other"}}).encode()
    as_json = {**headers, "content-type": "application/json"}
    turns = {
        "YAML in a request": await _longest_turn(server, write),
        "YAML in an answer": await _longest_turn(server, read),
        "JSON in a request, to compare": await _longest_turn(
            server, Request("POST", _MAPS, headers=as_json, body=other)
        ),
    }
    return {
        f"longest turn of the loop, 1 MB of {name}, ms": 1000 * seconds
        for name, seconds in turns.items()
    }


async def _longest_turn(server: APIServer, request: Request) -> float:
    """Return the longest time in which the loop does no other work."""
    turns = [0.0]

    async def turn() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            turns.append(now - last)
            last = now

    turning = asyncio.create_task(turn())
    await asyncio.sleep(0)
    answer = await server.handle(request)
    await asyncio.sleep(0)
    turning.cancel()
    assert answer.status < 300, answer
    return max(turns)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(_figures())))
