"""The quantities of a load: a quantity, or a share of a total."""

from typing import Final

from controller_manager.api.quantity import Quantity, QuantityError, parse_quantity

TOTAL: Final = "total:"
"""The prefix of a quantity that is divided."""


def share(text: str, count: int) -> str:
    """Return a quantity unchanged, or the share of a total for one of `count`.

    Shares are whole thousandths. Raises QuantityError.
    """
    amount = parse_quantity(text.removeprefix(TOTAL))
    if not text.startswith(TOTAL):
        return text
    return f"{amount.milli_value // max(count, 1)}m"


def summed(texts: list[str]) -> str:
    """Return the sum of quantities."""
    total = Quantity()
    for text in texts:
        total += parse_quantity(text)
    return str(total)


def is_load(text: str) -> bool:
    """Tell whether a text is a quantity of at least 0, or a total of that kind."""
    try:
        return parse_quantity(text.removeprefix(TOTAL)) >= Quantity()
    except QuantityError:
        return False
