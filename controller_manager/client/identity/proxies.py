"""The proxy of a cluster: that of the kubeconfig, or that of the environment.

The variables have the meaning that they have for Go's programs (golang.org/x/net,
http/httpproxy): kubeadm and others write $NO_PROXY for those.
"""

import ipaddress
import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from controller_manager.urls import without_user

from .kubeconfig import ConfigError

_PORTS: Final = {"http": 80, "https": 443}

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def checked_proxy(proxy: str | None, source: str = "proxy-url") -> str | None:
    """Return the URL of a proxy, `None` if it is empty; raises ConfigError.

    The error names the `source` of the URL.
    """
    if not proxy:
        return None
    shown = without_user(proxy)
    if proxy.partition("://")[0].lower() not in ("http", "https"):
        msg = f"{source} {shown!r}: only http:// and https:// proxies are supported"
        raise ConfigError(msg)
    try:
        parts = urlsplit(proxy)
        _ = parts.port  # raises ValueError if it is out of range
    except ValueError:
        parts = None
    if parts is None or not parts.hostname:
        msg = f"{source} {shown!r}: it needs a host, and a port from 0 to 65535"
        raise ConfigError(msg)
    return proxy


def environment_proxy(
    server: str, environment: Mapping[str, str] = os.environ
) -> str | None:
    """Return the proxy of $HTTPS_PROXY or $HTTP_PROXY for a server, if it needs one."""
    parts = urlsplit(server)
    if parts.scheme == "http" and "REQUEST_METHOD" in environment:
        return None  # of a CGI program, to which a client can give an HTTP_PROXY
    name = f"{parts.scheme.upper()}_PROXY"
    found = environment.get(name) or environment.get(name.lower())
    if not found:
        return None
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return None
    no_proxy = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    if any(_matches(entry, host, address, port) for entry in entries if entry):
        return None
    return checked_proxy(found if "://" in found else f"http://{found}", f"${name}")


def _matches(entry: str, host: str, address: _Address | None, port: int) -> bool:
    """Tell whether an entry of $NO_PROXY names a host.

    An entry is ``*``, a range of addresses, an address or a domain; the last two may
    have a port. ``.a.example`` and ``*.a.example`` are the hosts of a domain, and
    ``a.example`` is the domain and its hosts.
    """
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _is_in_range(address, entry)
    name, own_port = _split_port(entry)
    if own_port and own_port != str(port):
        return False
    named = _address(name)
    if named is not None:
        return named == address
    if name.startswith((".", "*.")):
        return host.endswith(name.removeprefix("*"))
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        return host, port.removeprefix(":")
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, port
    return entry, ""


def _is_in_range(address: _Address, text: str) -> bool:
    try:
        return address in ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False  # not a range, so it names nothing


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
