"""Ports for servers that a test starts in another process."""

from __future__ import annotations

import itertools
import os
import socket

_FIRST = 10_000
"""Below 32768, where Linux begins to take the ports of outgoing connections."""
_EACH = 1_000
"""How many ports each worker of pytest has for itself."""
_ports = itertools.count(os.getpid())


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody else takes before the server listens.

    A port that the kernel chooses may be gone by then: each outgoing connection of
    another process may get the same one. These ports lie below that range, and no two
    workers of pytest share one.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for _ in range(_EACH):
        port = _FIRST + worker % 20 * _EACH + next(_ports) % _EACH
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    msg = f"no port is free from {_FIRST} on"
    raise AssertionError(msg)
