"""Names that a module imports at their first use.

Its imports below ``if TYPE_CHECKING:`` are the table, for mypy and at run time: each
name stands there once, with its module.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path


def at_first_use(module: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module, which imports what it is asked for.

    It raises AttributeError for a name that the module does not import.
    """
    here = sys.modules[module]

    @cache
    def table() -> dict[str, str]:
        return dict(_imports(Path(str(here.__file__)).read_text(encoding="utf-8")))

    def find(name: str) -> object:
        if name not in table():
            msg = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(msg)
        parent, _, last = table()[name].rpartition(":")
        package = import_module(parent, here.__package__)
        if not hasattr(package, last):
            import_module(f"{package.__name__}.{last}")  # a module
        found: object = getattr(package, last)
        setattr(here, name, found)
        return found

    return find


def _imports(source: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a source imports for mypy, each with its ``module:name``."""
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for each in block.body:
                if isinstance(each, ast.ImportFrom):
                    module = "." * each.level + (each.module or "")
                    for alias in each.names:
                        yield alias.asname or alias.name, f"{module}:{alias.name}"
