"""The user of a proxy, kept apart from its URL: errors of aiohttp show the URL."""

from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from controller_manager.urls import without_user


def without_proxy_user(proxy: str) -> tuple[str, Mapping[str, str]]:
    """Return the URL of a proxy without its user, and the headers that name the user.

    Upstream: net/http, transport.go, proxyAuth.
    """
    parts = urlsplit(proxy)
    if parts.username is None:
        return proxy, {}
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    encoded = b64encode(user.encode()).decode("ascii")
    return without_user(proxy), {"Proxy-Authorization": f"Basic {encoded}"}
