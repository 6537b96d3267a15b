"""Tables of cases: ``tests/data/devcluster/rows``, by directory and by test."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

Test = TypeVar("Test", bound=Callable[..., object])
DIRECTORY = Path(__file__).parents[1] / "data" / "devcluster" / "rows"


@cache
def _tables(name: str) -> dict[str, list[Any]]:
    text = (DIRECTORY / f"{name}.yaml").read_text()
    tables: dict[str, list[Any]] = yaml.load(text, yaml.CSafeLoader)
    return tables


def rows(*names: str, **options: Any) -> Callable[[Test], Test]:
    """Run a test with each row of the table that is called as the test.

    ``names`` are the arguments that a row has, in order.
    """

    def with_rows(test: Test) -> Test:
        *directories, _ = test.__module__.split(".")[2:]
        tables = _tables("-".join(directories) or "devcluster")
        table = tables[test.__name__.removeprefix("test_").replace("_", " ")]
        names_or_name = names if len(names) > 1 else names[0]
        marked: Test = pytest.mark.parametrize(names_or_name, table, **options)(test)
        return marked

    return with_rows


def parsed(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)
