"""Quantities of objects in canonical form, as the API server stores them.

A quantity may be a number in JSON. Decoding an object makes it canonical: ``0.5`` of
a cpu becomes ``500m``.
"""

from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import QuantityError, parse_quantity


def make_canonical(holder: JSON, *names: str) -> None:
    """Make the quantities in these maps of `holder` canonical.

    Other values stay unchanged: validation reports them.
    """
    for name in names:
        amounts = holder.get(name)
        if isinstance(amounts, dict):
            holder[name] = {each: _canonical(amounts[each]) for each in amounts}


def _canonical(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    try:
        return str(parse_quantity(str(value).strip()))
    except QuantityError:
        return value
