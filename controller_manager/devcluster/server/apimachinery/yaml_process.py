"""Reads and writes large YAML in a process of its own.

libyaml needs seconds for a megabyte, and keeps Python's lock meanwhile: in a thread, it
would stop the event loop. A process for each document needs a tenth of a second to
start, and leaves nothing behind. asyncio's threads limit the number of processes.
"""

import asyncio
import os
import subprocess
import sys
from typing import Final

from controller_manager.devcluster.server.apimachinery import yaml_bodies
from controller_manager.devcluster.server.apimachinery.yaml_bodies import (
    ReadBody,
    result_of,
)

LARGE: Final = 64 * 1024
"""The number of bytes from which on a process reads or writes a document."""


async def read_yaml(document: bytes) -> ReadBody:
    """Return a document of which `decode_yaml` needs little time."""
    body = ReadBody(document)
    body.answer = await asyncio.to_thread(_answer, "read", document)
    return body


async def write_yaml(json: bytes) -> bytes:
    """Return what `encode_yaml` returns."""
    written: bytes = result_of(await asyncio.to_thread(_answer, "write", json))
    return written


def _answer(work: str, data: bytes) -> bytes:
    return subprocess.run(  # noqa: S603 - a module of this package
        (sys.executable, "-m", yaml_bodies.__name__, work),
        input=data,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
