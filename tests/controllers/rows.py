"""Tables of cases, whose keys are the names of the tests."""

from collections.abc import Mapping
from typing import Any

import pytest


def rows(names: str, table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test with each value of a table; `names` are those of its arguments."""
    arguments = names.split() if " " in names else names
    return pytest.mark.parametrize(arguments, table.values(), ids=table)
