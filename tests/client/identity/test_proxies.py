"""The proxy of the environment, by the rules of Go's programs."""

import pytest

from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.identity.proxies import environment_proxy

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
