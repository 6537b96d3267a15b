"""The admission plugin ExtendedResourceToleration."""

from typing import ClassVar, Final

from controller_manager.control.quota.resources import is_extended
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write

from .tolerations import merged
from .writes import PODS, spec_of

_LISTS: Final = ("containers", "initContainers")


class ExtendedResourceToleration(Plugin):
    """Lets pods with an extended resource run on nodes that are tainted with it."""

    name: ClassVar = "ExtendedResourceToleration"
    targets: ClassVar = PODS
    mutates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def mutate(self, write: Write) -> None:
        """Add a toleration for each extended resource, by name."""
        spec = spec_of(write)
        containers = [each for name in _LISTS for each in spec.get(name) or ()]
        names = {
            name
            for each in containers
            for name in (each.get("resources") or {}).get("requests") or {}
            if is_extended(name)
        }
        if names:
            added = [{"key": name, "operator": "Exists"} for name in sorted(names)]
            spec["tolerations"] = merged(spec.get("tolerations") or [], added)
