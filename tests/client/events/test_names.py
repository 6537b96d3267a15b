"""Names are checked by the API server's rules."""

import pytest

from controller_manager.client.events.recorder import is_dns_subdomain


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", True),
        ("0", True),
        ("a-b.c-d.0", True),
        ("a" * 253, True),
        ("a" * 254, False),
        ("", False),
        ("a.", False),
        (".a", False),
        ("a..b", False),
        ("a.-b", False),
        ("a-.b", False),
        ("A", False),
        ("ä", False),
        ("a_b", False),
        ("system:node:x", False),
        ("a\n", False),
    ],
)
def test_a_dns_subdomain_is_recognised(name: str, expected: bool) -> None:
    assert is_dns_subdomain(name) is expected
