"""A server in a process of its own, with few files and a choice of event loop.

It takes commands from standard input and answers each with a line of JSON.
"""

import asyncio
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import uvloop

from controller_manager.serving.connection import ConnectionLimits, Listener
from tests.serving.servers import config_of, server_of

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def open_files(most: int) -> list[int]:
    files: list[int] = []
    try:
        while len(files) < most:
            files.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return files
    return files


def count_accepts() -> list[None]:
    calls: list[None] = []
    accept = Listener._accept

    async def counted(self: Listener) -> socket.socket:
        calls.append(None)
        return await accept(self)

    Listener._accept = counted  # type: ignore[method-assign]
    return calls


async def main() -> None:
    loop = asyncio.get_running_loop()
    calls = count_accepts()
    limits = json.loads(sys.argv[3])
    server = server_of(
        config_of(), limits=replace(ConnectionLimits.for_this_process(), **limits)
    )
    await server.start()
    answer(server.port)
    held: list[int] = []
    while command := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        match command:
            case "hold":
                held = open_files(100_000)
                calls.clear()
                answer(len(held))
            case "release":
                for each in held:
                    os.close(each)
                held = []
                answer(len(calls))
            case "state":
                files = open_files(100)
                for each in files:
                    os.close(each)
                assert server._listener is not None
                answer([server._listener.connections, len(files)])
    await server.close()


if __name__ == "__main__":
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
        runner.run(main())
