"""The kinds of Kubernetes that the development cluster serves: one file each.

``kinds/GROUP/KIND.py`` has a ``KIND``. It is found, not listed: a new kind takes one
new file, whose strategy overrides the default behaviour. Code that several kinds
share is in modules named after the concept. The package `server` does not import
this package; it is given the kinds.
"""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from controller_manager.devcluster.server.kind import Kind


@cache
def find_kinds() -> tuple[Kind, ...]:
    """Return the kinds of all modules below this package, by group and name."""
    found = [
        kind
        for module in walk_packages(__path__, f"{__name__}.")
        if isinstance(kind := getattr(import_module(module.name), "KIND", None), Kind)
    ]
    return tuple(sorted(found, key=lambda kind: (kind.group, kind.plural)))
