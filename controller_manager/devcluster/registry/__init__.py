"""The kinds of Kubernetes that the development cluster serves.

A kind is a constant of a module: `find_kinds` searches the modules for them, so a new
kind takes a few lines in the module of its group. Its facts are data: rules, columns,
defaults and so on; a strategy of its own overrides the behaviour that differs. Its
names, scope, verbs and subresources are those in discovery of a Kubernetes 1.36 server,
where ``built_in`` finds them. Beside it, a module may have a ``RESTStorage``: the
handlers that use other stored objects. The package ``apiserver`` does not import this
package; its caller passes both.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import TypeVar

from controller_manager.devcluster.apiserver.kind import GatedKind, Kind
from controller_manager.devcluster.apiserver.objects import RESTStorage
from controller_manager.options.gates import FeatureGates

from .apiregistration import priority

_T = TypeVar("_T", Kind, GatedKind, RESTStorage)


@cache
def find_kinds() -> tuple[Kind, ...]:
    """Return the kinds that every server serves, in the order of discovery."""
    return _sorted(each for kind in _declared(Kind) for each in kind.versions())


def kinds_with(features: FeatureGates) -> tuple[Kind, ...]:
    """Return the kinds served with these feature gates, in the order of discovery."""
    gated = (
        each.kind for each in _gated_kinds() if features.is_enabled(each.required_gate)
    )
    served = (*find_kinds(), *gated)
    return _sorted(kind.with_features(features) for kind in served)


@cache
def _gated_kinds() -> tuple[GatedKind, ...]:
    return tuple(_declared(GatedKind))


@cache
def find_storages() -> tuple[RESTStorage, ...]:
    """Return the resources that have handlers besides their strategies."""
    return tuple(_declared(RESTStorage))


def _declared(type_: type[_T]) -> Iterator[_T]:
    """Yield the constants of a type in the modules below this package, each once."""
    seen = set()
    for module in walk_packages(__path__, f"{__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type_) and id(value) not in seen:
                seen.add(id(value))
                yield value


def _sorted(kinds: Iterator[Kind]) -> tuple[Kind, ...]:
    """Sort kinds by the priority of their group, then by group and name."""
    return tuple(
        sorted(kinds, key=lambda kind: (-priority(kind.group), kind.group, kind.plural))
    )
