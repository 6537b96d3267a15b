"""Quantities and numbers as Go reads them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.quantity import (
    ZERO,
    Format,
    Quantity,
    QuantityError,
    parse_quantity,
)
from controller_manager.api.scalars import parse_int

SI, BINARY, EXPONENT = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT

_FORM = (
    "quantities must match the regular expression "
    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_SUFFIX = "unable to parse quantity's suffix"
_NUMBER = "unable to parse numeric part of quantity"


@pytest.mark.parametrize(
    ("text", "printed", "form", "value", "milli_value"),
    [
        ("0", "0", SI, 0, 0),
        ("00", "0", SI, 0, 0),
        ("0Ki", "0", BINARY, 0, 0),
        ("-0", "0", SI, 0, 0),
        (".", "0", SI, 0, 0),
        ("1", "1", SI, 1, 1000),
        ("1000", "1k", SI, 1000, 10**6),
        ("1500m", "1500m", SI, 2, 1500),
        ("1.5", "1500m", SI, 2, 1500),
        ("0.5", "500m", SI, 1, 500),
        ("-0.5", "-500m", SI, -1, -500),
        ("1.08", "1080m", SI, 2, 1080),
        ("1080000000n", "1080m", SI, 2, 1080),
        ("0.001T", "1G", SI, 10**9, 10**12),
        ("1000M", "1G", SI, 10**9, 10**12),
        ("40.1T", "40100G", SI, 401 * 10**11, 401 * 10**14),
        ("1000E", "1e21", SI, 10**21, 10**24),
        ("1Ki", "1Ki", BINARY, 1024, 1024000),
        ("1.5Gi", "1536Mi", BINARY, 3 * 2**29, 3 * 2**29 * 1000),
        ("1024Mi", "1Gi", BINARY, 2**30, 2**30 * 1000),
        ("2000Ki", "2000Ki", BINARY, 2048000, 2048000000),
        ("0.5Ki", "512", BINARY, 512, 512000),
        (".001Ki", "1024m", BINARY, 2, 1024),
        ("100.035Ki", "102435840m", BINARY, 102436, 102435840),
        ("1e3", "1e3", EXPONENT, 1000, 10**6),
        ("12e6", "12e6", EXPONENT, 12 * 10**6, 12 * 10**9),
        ("12E6", "12E6", EXPONENT, 12 * 10**6, 12 * 10**9),
        ("1e5", "100e3", EXPONENT, 10**5, 10**8),
        ("1.2e3", "1200", EXPONENT, 1200, 1200000),
        (".001e12", "1e9", EXPONENT, 10**9, 10**12),
        ("80e-3", "80e-3", EXPONENT, 1, 80),
    ],
)
def test_a_quantity_is_exact_and_is_printed_in_canonical_form(
    text: str, printed: str, form: Format, value: int, milli_value: int
) -> None:
    found = parse_quantity(text)
    assert (str(found), found.format, found.value, found.milli_value) == (
        printed,
        form,
        value,
        milli_value,
    )


@pytest.mark.parametrize("text", ["+1", "0100m", "1.125", "1.G", "1025Ki"])
def test_a_text_that_seems_canonical_is_printed_as_it_is(text: str) -> None:
    """Until somebody computes with it."""
    assert str(parse_quantity(text)) == text
    assert str(ZERO + parse_quantity("1.125")) == "1125m"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0.1m", "100u"),
        ("3.001n", "4n"),
        ("1.1E-9", "2e-9"),
        ("0.00000012345", "124n"),
        ("-0.0000000001", "-1n"),
        ("1e-2147483647", "1e-9"),
        ("0.000000000001Ki", "2n"),
        ("9Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        ("12E", "12E"),
    ],
)
def test_the_smallest_are_rounded_up_and_the_largest_binary_ones_are_capped(
    text: str, printed: str
) -> None:
    """A billionth, and 2^63 - 1."""
    assert str(parse_quantity(text)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", _FORM),
        ("x", _FORM),
        ("aoeu", _FORM),
        (" 1", _FORM),
        ("1 ", _FORM),
        ("1 Gi", _FORM),
        ("1Q", _FORM),
        ("1.1.M", _FORM),
        ("1+1.0M", _FORM),
        ("\N{ARABIC-INDIC DIGIT ONE}", _FORM),
        ("--1", _SUFFIX),
        ("0.1mi", _SUFFIX),
        ("1i", _SUFFIX),
        ("1e", _SUFFIX),
        ("-3.01e-", _SUFFIX),
        ("1e4294967297", _SUFFIX),
        ("1e" + "9" * 5000, _SUFFIX),
        ("1" * 5000, _NUMBER),
    ],
)
def test_a_text_that_is_no_quantity_is_refused(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse_quantity(text)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("first", "operator", "second", "printed"),
    [
        ("1Gi", "+", "512Mi", "1536Mi"),
        ("1Gi", "+", "1", "1073741825"),
        ("1", "+", "1Ki", "1025"),
        ("0", "+", "1Gi", "1Gi"),
        ("1Gi", "+", "0", "1Gi"),
        ("0", "-", "1Gi", "-1Gi"),
        ("1Gi", "-", "1Gi", "0"),
        ("1Gi", "-", "1100m", "1073741822900m"),
        ("1e3", "+", "1k", "2e3"),
        ("100m", "+", "900m", "1"),
        ("8Ei", "+", "8Ei", "18446744073709551614"),
    ],
)
def test_a_sum_has_the_format_of_the_first_that_is_not_zero(
    first: str, operator: str, second: str, printed: str
) -> None:
    left, right = parse_quantity(first), parse_quantity(second)
    assert str(left + right if operator == "+" else left - right) == printed


def test_a_sum_above_all_suffixes_loses_nothing() -> None:
    assert str(Quantity.of(2**60, BINARY) * 1024) == str(2**70)
    assert str(Quantity.of(10**70, BINARY)) == "10e69"
    assert str(Quantity.of(5 * 10**21)) == "5e21"


def test_quantities_are_compared_by_their_amount_alone() -> None:
    assert parse_quantity("1Ki") == parse_quantity("1024")
    assert not parse_quantity("1Ki") != parse_quantity("1024")  # noqa: SIM202
    assert len({parse_quantity("1Ki"), parse_quantity("1024")}) == 1
    assert parse_quantity("10000T") > parse_quantity("100Gi") > ZERO
    assert parse_quantity("50m") < parse_quantity("100m") <= parse_quantity("0.1")
    assert parse_quantity("-1") < ZERO
    assert parse_quantity("1") != "1"


def test_a_huge_exponent_costs_nothing() -> None:
    """Upstream accepts it; a number of two billion digits would fill the memory."""
    huge = parse_quantity("1e2147483647")
    assert huge > parse_quantity("1" + "0" * 900)
    assert (huge - huge).is_zero


_NANOS = st.integers(-(10**30), 10**30)


@given(_NANOS, st.sampled_from(Format))
def test_a_printed_quantity_parses_to_its_amount(nanos: int, form: Format) -> None:
    """Unless it is a binary one above the cap; and then it is printed the same.

    Of a binary quantity that has no suffix the text does not say that it is one.
    """
    printed = str(Quantity(nanos, form))
    again = parse_quantity(printed)
    if again.format is BINARY and abs(nanos) > (2**63 - 1) * 10**9:
        assert again.value in (2**63 - 1, 1 - 2**63)
        return
    assert again.nanos == nanos
    assert "." not in printed
    if form is BINARY and again.format is not BINARY:
        printed = str(Quantity(nanos, SI))
    assert str(again) == printed


@given(_NANOS, _NANOS, st.sampled_from(Format), st.sampled_from(Format))
def test_computing_is_exact(
    first: int, second: int, form: Format, other: Format
) -> None:
    left, right = Quantity(first, form), Quantity(second, other)
    assert (left + right - right) == left
    assert (left + right).format is (form if first else other)
    assert -(left - right) == right - left


@given(
    st.integers(0, 10**16),
    st.integers(0, 9999),
    st.sampled_from(["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "e-3", "E+5"]),
)
def test_a_decimal_text_is_its_amount_rounded_up_to_billionths(
    number: int, fraction: int, suffix: str
) -> None:
    scales = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12}
    scales |= {"P": 15, "E": 18, "e-3": -3, "E+5": 5}
    exact = Fraction(f"{number}.{fraction:04d}") * Fraction(10) ** (9 + scales[suffix])
    found = parse_quantity(f"{number}.{fraction:04d}{suffix}")
    assert found.nanos == -(-exact.numerator // exact.denominator)


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
