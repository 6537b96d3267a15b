"""The curves of the server's TLS: an unknown curve does not end the start."""

import pytest

from controller_manager.options.parsing import parse
from controller_manager.registry import registry

_ORIGIN = "--tls-curve-preferences:"


@pytest.mark.parametrize(
    ("given", "curve", "warnings"),
    [
        ("24", "secp384r1", ()),
        ("4588,23", "prime256v1", (f"{_ORIGIN} curve 4588 cannot be chosen here",)),
        ("23,24", "", (f"{_ORIGIN} several curves are given, OpenSSL chooses",)),
        (
            "29",
            "",
            (
                f"{_ORIGIN} curve 29 cannot be chosen here",
                f"{_ORIGIN} no known curves are given, OpenSSL chooses",
            ),
        ),
    ],
)
def test_an_unknown_curve_is_passed_over_with_a_warning(
    given: str, curve: str, warnings: tuple[str, ...]
) -> None:
    """As Go passes it over; a client of a newer curve takes another one."""
    config = parse({"tls-curve-preferences": [given]}, registry())
    assert (config.serving.curve, config.warnings) == (curve, warnings)
