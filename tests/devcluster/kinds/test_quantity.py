"""Resource quantities."""

from fractions import Fraction

import pytest

from controller_manager.devcluster.kinds.quantity import format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", Fraction(1)),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("2e3", Fraction(2000)),
        ("5k", Fraction(5000)),
    ],
)
def test_a_quantity_is_an_exact_amount(text: str, amount: Fraction) -> None:
    """No rounding."""
    assert parse_quantity(text) == amount
    assert parse_quantity(format_quantity(amount)) == amount


@pytest.mark.parametrize("text", ["", "x", "1Q", "1 Gi", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """With the pattern."""
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity(text)
