"""Both ways in which the transport sends requests without a proxy."""

from collections.abc import Callable
from typing import Final

import pytest

from controller_manager.client import http
from controller_manager.client.credentials import Credentials
from controller_manager.client.files import FileReserve
from controller_manager.client.wire.dialing import ObserveLookUp
from controller_manager.client.wire.proxied import ProxiedWire

DIRECT: Final = "direct"
BY_AIOHTTP: Final = "by aiohttp"

WIRES: Final = (DIRECT, BY_AIOHTTP)
"""Our own connections, and those of aiohttp, which are used for proxies."""


def use_wire(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make each new transport send its requests in one of the ways."""
    if name == BY_AIOHTTP:
        make: Callable[..., http.Wire] = _by_aiohttp
        monkeypatch.setattr(http, "_wire", make)


def _by_aiohttp(
    credentials: Credentials,
    user_agent: str,
    reserve: FileReserve,
    observe_look_up: ObserveLookUp,
) -> ProxiedWire:
    return ProxiedWire(
        credentials.server,
        user_agent,
        None,
        credentials.tls_server_name,
        reserve,
        observe_look_up,
    )
