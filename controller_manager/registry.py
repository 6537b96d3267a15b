"""Finds all controllers of this build.

A controller is found by its descriptor. That is ``CONTROLLER`` of a package below
``controller_manager.controllers``, or the object that another distribution names in
an entry point of the group ``controller_manager.controllers``.
"""

import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller_manager import controllers
from controller_manager.api.meta import AnyResource
from controller_manager.options.controller_options import ControllerOptions
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry, RegistryError, RootCause

if TYPE_CHECKING:  # the registry is read for --help, too
    from controller_manager.client.rest.client import Client
    from controller_manager.client.rest.request import ServerClock

ENTRY_POINTS: Final = "controller_manager.controllers"

_DESCRIPTOR: Final = "CONTROLLER"


@cache
def registry() -> Registry:
    """Return the registry of this build; it is made once.

    Raises RegistryError if a descriptor cannot be loaded, or if two conflict.
    """
    return Registry(
        (*_in_tree(), *_from_entry_points(entry_points(group=ENTRY_POINTS))),
        _find_root_cause,
    )


async def _find_root_cause(
    client: "Client",
    clock: "ServerClock",
    resource: AnyResource,
    namespace: str,
    name: str,
) -> RootCause:
    # A daemon without a stuck rollout never loads the explanations.
    from controller_manager.explain.answer import root_cause  # noqa: PLC0415

    return await root_cause(client, clock, resource, namespace, name)


def _in_tree() -> Iterator[Descriptor]:
    """Yield the descriptors of the packages ``controllers.AREA.NAME``."""
    check_packages(Path(next(iter(controllers.__path__))))
    for area in pkgutil.iter_modules(controllers.__path__, f"{controllers.__name__}."):
        for found in pkgutil.iter_modules(
            import_module(area.name).__path__, f"{area.name}."
        ):
            yield _descriptor(
                getattr(import_module(found.name), _DESCRIPTOR), found.name
            )


def check_packages(directory: Path) -> None:
    """Raise RegistryError for a directory of modules that is no package.

    Its descriptor would not be found, and no error would say so.
    """
    for controller in directory.glob("*/*/"):
        if not any(controller.glob("*.py")):
            continue
        for package in (controller.parent, controller):
            if not (package / "__init__.py").exists():
                msg = f"{package} has modules, but no __init__.py; add one"
                raise RegistryError(msg)


def _from_entry_points(found: Iterable[EntryPoint]) -> Iterator[Descriptor]:
    for entry_point in found:
        origin = entry_point.dist.name if entry_point.dist else "an unknown package"
        try:
            loaded = entry_point.load()
        except Exception as error:
            # Texts of errors may have several lines; this is a part of one.
            why = " ".join(f"{type(error).__name__}: {error}".split())
            msg = (
                f"the controller {entry_point.name} of {origin} cannot be imported "
                f"from {entry_point.value}: {why}; repair or uninstall the package"
            )
            raise RegistryError(msg) from error
        if not isinstance(loaded, Descriptor):
            msg = (
                f"{entry_point.value} of {origin} is not a Descriptor; name one in its "
                f"entry point of the group {ENTRY_POINTS}"
            )
            raise RegistryError(msg)
        yield _descriptor(loaded, entry_point.module)


def _descriptor(descriptor: Descriptor, package: str) -> Descriptor:
    options: object = descriptor.options
    if options is not None and not (
        isinstance(options, type) and issubclass(options, ControllerOptions)
    ):
        msg = (
            f"the options of {descriptor.name} of {package} are not a subclass of "
            f"{ControllerOptions.__name__}; make them one"
        )
        raise RegistryError(msg)
    return replace(descriptor, package=descriptor.package or package)
