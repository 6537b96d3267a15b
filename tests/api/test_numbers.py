"""Whole numbers are read as Go reads them."""

import pytest

from controller_manager.api.scalars import parse_int


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("-0", 0),
        ("007", 7),
        ("-05", -5),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("0" * 5000 + "1", 1),
    ],
)
def test_a_number_is_read_in_every_form_that_go_takes(text: str, number: int) -> None:
    assert parse_int(text, 32) == parse_int(text, 64) == number


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", " 7", "7 ", "7\n", "1_000", "0x7", "7.0", "--7", "\u0667", "\uff17"],
)
def test_what_go_does_not_take_is_no_number(text: str) -> None:
    """Python alone takes spaces, underscores and digits of other scripts."""
    assert parse_int(text, 64) is None


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("2147483648", 32),
        ("-2147483649", 32),
        ("9223372036854775808", 64),
        ("9" * 5000, 64),
    ],
)
def test_a_number_that_does_not_fit_is_none(text: str, bits: int) -> None:
    """However long it is: Python raises an exception beyond 4,300 digits."""
    assert parse_int(text, bits) is None
