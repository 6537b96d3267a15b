"""Proxies by the rules of Go's programs, and the passwords in URLs."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller_manager.cli.command import make_command
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.identity.proxies import environment_proxy
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.clock import SystemClock
from controller_manager.urls import has_user, without_user
from tests.client.identity.test_credentials import kubeconfig
from tests.http.servers import connected, listening

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("no_proxy", "server", "is_spared"),
    [
        ("", "https://a.example", False),
        ("*", "https://a.example", True),
        ("a.example", "https://a.example", True),
        ("a.example", "https://b.a.example", True),
        ("a.example", "https://ba.example", False),
        (".a.example", "https://b.a.example", True),
        (".a.example", "https://a.example", False),
        ("*.a.example", "https://b.a.example", True),
        ("*.a.example", "https://a.example", False),
        (" A.Example , b", "https://a.example", True),
        ("a.example:6443", "https://a.example:6443", True),
        ("a.example:6443", "https://a.example", False),
        ("a.example:443", "https://a.example", True),
        ("a.example:80", "http://a.example", True),
        ("10.0.0.1", "https://10.0.0.1:6443", True),
        ("10.0.0.1:6443", "https://10.0.0.1:6443", True),
        ("10.0.0.1:6443", "https://10.0.0.1", False),
        ("10.0.0.1", "https://10.0.0.10", False),
        ("10.96.0.0/12", "https://10.96.0.1", True),
        ("10.96.0.0/12", "https://10.0.0.1", False),
        ("10.96.0.0/99,b/c", "https://10.96.0.1", False),
        ("10.96.0.0/12", "https://a.example", False),
        ("fd00::1", "https://[fd00::1]:6443", True),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", True),
        ("[fd00::1]:6443", "https://[fd00::1]:443", False),
        ("fd00::/8", "https://[fd00::1]", True),
        (":6443,,", "https://a.example:6443", False),
        ("", "https://localhost:6443", True),
        ("", "https://127.0.0.2:6443", True),
        ("", "https://[::1]:6443", True),
    ],
)
def test_an_entry_of_no_proxy_names_hosts_addresses_and_ports(
    no_proxy: str, server: str, is_spared: bool
) -> None:
    environment = {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": no_proxy}
    found = environment_proxy(server, environment)
    assert found == (None if is_spared else PROXY)


@pytest.mark.parametrize(
    ("environment", "server", "proxy"),
    [
        ({"https_proxy": "http://low"}, "https://a", "http://low"),
        (
            {"HTTPS_PROXY": "http://high", "https_proxy": "http://low"},
            "https://a",
            "http://high",
        ),
        ({"HTTPS_PROXY": "", "https_proxy": "http://low"}, "https://a", "http://low"),
        ({"HTTPS_PROXY": "proxy:3128"}, "https://a", "http://proxy:3128"),
        ({"HTTPS_PROXY": PROXY}, "http://a", None),
        ({"HTTP_PROXY": PROXY}, "http://a", PROXY),
        ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, "http://a", None),
        ({"ALL_PROXY": PROXY}, "https://a", None),
        ({"HTTPS_PROXY": PROXY, "no_proxy": "a"}, "https://a", None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "b", "no_proxy": "a"}, "https://a", PROXY),
    ],
)
def test_variables_in_capitals_go_first(
    environment: dict[str, str], server: str, proxy: str | None
) -> None:
    assert environment_proxy(server, environment) == proxy


def test_a_bad_variable_is_named_and_its_password_is_not() -> None:
    with pytest.raises(ConfigError) as caught:
        environment_proxy("https://a", {"HTTPS_PROXY": "socks5://jane:s3cret@proxy"})
    assert str(caught.value) == (
        "$HTTPS_PROXY 'socks5://proxy': only http:// and https:// proxies are supported"
    )


CLOCK = SystemClock()


@pytest.mark.parametrize(
    ("url", "is_user_in_it", "shown"),
    [
        ("https://h:6443/base", False, "https://h:6443/base"),
        ("https://h/p@th", False, "https://h/p@th"),
        ("https://jane:s3cret@h:6443/base", True, "https://h:6443/base"),
        ("https://jane@h", True, "https://h"),
        ("https://jane:s3@cret@[::1]:1", True, "https://[::1]:1"),
        ("//jane:s3cret@h", True, "//h"),
        ("jane:s3cret@h", True, "h"),
        # A slash should be written %2F; a password may have one by mistake.
        ("https://jane:s3/cret@h", True, "https://h"),
        ("https://jane:s3cret@[h", True, "https://[h"),
        ("", False, ""),
    ],
)
def test_a_user_in_a_url_is_found(url: str, is_user_in_it: bool, shown: str) -> None:
    assert (has_user(url), without_user(url)) == (is_user_in_it, shown)


def test_a_master_with_a_user_is_refused_without_its_password(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, cluster={"server": "https://h"})
    for master in ("https://jane:s3cret@h", "jane:s3cret@h"):
        for arguments in (
            [f"--master={master}"],
            [f"--master={master}", f"--kubeconfig={path}", "--v=9"],
            ["config", f"--master={master}"],
        ):
            result = CliRunner().invoke(make_command(), arguments)
            assert (result.exit_code, result.output) == (
                1,
                (
                    "Error: --master: the URL must not hold a user name or a password; "
                    "give them in the user section of a kubeconfig\n"
                ),
            )


async def _failure(proxy: str) -> tuple[str, str]:
    async with connected("https://api.example", proxy=proxy) as transport:
        with pytest.raises(TransportError) as caught:
            await transport.request(Request("GET", "/version"))
    return transport.host, str(caught.value)


async def test_a_proxy_that_refuses_is_named_without_its_password() -> None:
    """It has got the password; the error has its address only."""
    heads = []

    async def refuse(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        )

    async with listening(refuse) as port:
        failure = await _failure(f"http://jane:s3cret@127.0.0.1:{port}")
    assert "Proxy-Authorization: Basic amFuZTpzM2NyZXQ=" in heads[0]
    assert failure == (
        "api.example",
        (
            "GET /version at api.example: "
            f"the proxy http://127.0.0.1:{port} answered 407 "
            "Proxy Authentication Required"
        ),
    )


async def test_a_proxy_that_is_down_is_named_without_its_password() -> None:
    assert await _failure("http://jane:s3cret@127.0.0.1:1") == (
        "api.example",
        (
            "GET /version at api.example: the proxy http://127.0.0.1:1: "
            "cannot connect: Connection refused"
        ),
    )
