"""The kinds of Kubernetes that the development cluster serves.

``kinds/GROUP/KIND.py`` has a ``KIND``; a kind with many parts is a package, whose
module ``strategy`` has it. `find_kinds` searches the modules for it, so a new kind
takes one new file, whose strategy overrides the default behaviour. Its names, scope,
verbs and subresources are those in discovery of a Kubernetes 1.36 server, where
``built_in`` finds them. Beside ``KIND``, a module may have a ``REST_STORAGE``: the
handlers that use other stored objects. The package `server` does not import this
package; its caller passes both.

There is one package for each group: ``admissionregistration``, ``apiextensions``,
``apiregistration``, ``apiserverinternal``, ``apps``, ``authentication``,
``authorization``, ``autoscaling``, ``batch``, ``certificates``, ``coordination``,
``core``, ``discovery``, ``events``, ``flowcontrol``, ``networking``, ``node``,
``policy``, ``rbac``, ``resource``, ``scheduling``, ``storage``, ``storagemigration``.

Several groups share these modules:

- Validation: ``condition_validation``, ``storage_validation``, ``taint_validation``,
  ``workload_validation`` (also counts of replicas). The package
  ``validation`` has the rules, and the tables for pods.
- Defaults: ``claim_defaults``, ``pod_spec_defaults``, ``scheduling_group`` (a field
  behind a feature gate).
- Behaviour: ``columns`` (of tables), ``fixed_uids``, ``replicas`` (of replica sets and
  replication controllers), ``reviews`` (answers that are not stored).
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from controller_manager.devcluster.server.registry.rest_storage import RESTStorage
from controller_manager.devcluster.server.rest.kind import GatedKind, Kind
from controller_manager.options.gates import FeatureGates

from .apiregistration.group_priorities import priority


@cache
def find_kinds() -> tuple[Kind, ...]:
    """Return the kinds that every server serves, in the order of discovery."""
    declared = (each for each in _declared() if isinstance(each, Kind))
    return _sorted(each for kind in declared for each in kind.versions())


def kinds_with(features: FeatureGates) -> tuple[Kind, ...]:
    """Return the kinds served with these feature gates, in the order of discovery."""
    gated = (
        each.kind for each in _gated_kinds() if features.is_enabled(each.required_gate)
    )
    served = (*find_kinds(), *gated)
    return _sorted(kind.with_features(features) for kind in served)


@cache
def _gated_kinds() -> tuple[GatedKind, ...]:
    return tuple(each for each in _declared() if isinstance(each, GatedKind))


@cache
def find_storages() -> tuple[RESTStorage, ...]:
    """Return the resources that have handlers besides their strategies."""
    found = _declared("REST_STORAGE")
    return tuple(each for each in found if isinstance(each, RESTStorage))


def _declared(name: str = "KIND") -> Iterator[object]:
    """Yield the constant of each module below this package, `None` without one."""
    for module in walk_packages(__path__, f"{__name__}."):
        yield getattr(import_module(module.name), name, None)


def _sorted(kinds: Iterator[Kind]) -> tuple[Kind, ...]:
    """Sort kinds by the priority of their group, then by group and name."""
    return tuple(
        sorted(kinds, key=lambda kind: (-priority(kind.group), kind.group, kind.plural))
    )
