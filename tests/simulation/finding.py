"""Finds the simulation modules of controllers, in this tree and elsewhere."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.simulation.properties import Properties

GROUP: Final = "controller_manager.simulation"
"""Entry point group that names the properties modules of other packages."""

_CONTROLLERS: Final = Path(__file__).parents[1] / "controllers"


class NoPropertiesError(Exception):
    """A module that was named with --properties has no properties."""


def modules(name: str) -> Iterator[ModuleType]:
    """Yield the modules of a name beside the tests of this tree's controllers."""
    for path in sorted(_CONTROLLERS.glob(f"*/*/{name}.py")):
        yield import_module(".".join(("tests", *_parts(path))))


def of_one_controller(name: str) -> Iterator[tuple[type[Properties], ModuleType]]:
    """Yield the modules of a name, each with the properties of its controller."""
    for module in modules(name):
        beside = import_module(f"{module.__name__.rpartition('.')[0]}.properties")
        yield beside.PROPERTIES, module


def _parts(path: Path) -> tuple[str, ...]:
    return path.relative_to(_CONTROLLERS.parent).with_suffix("").parts


def find_properties(more: Iterable[str] = ()) -> list[type[Properties]]:
    """Return the properties of all controllers, those of this tree first.

    `more` are further modules by their dotted names; a name that occurs twice counts
    once. Raises NoPropertiesError for one that cannot be imported or has none.
    """
    found = {each.__name__: each.PROPERTIES for each in modules("properties")}
    named = sorted(each.value for each in entry_points(group=GROUP))
    for name in (*named, *more):
        found[name] = _properties_in(name)
    return list(found.values())


def _properties_in(name: str) -> type[Properties]:
    try:
        found = getattr(import_module(name), "PROPERTIES", None)
    except ImportError as error:
        msg = f"--properties {name}: {error}"
        raise NoPropertiesError(msg) from error
    if isinstance(found, type) and issubclass(found, Properties):
        return found
    msg = f"--properties {name}: PROPERTIES must be a subclass of {Properties.__name__}"
    raise NoPropertiesError(msg)
