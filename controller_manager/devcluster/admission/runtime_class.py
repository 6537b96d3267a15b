"""The admission plugin RuntimeClass: overhead and scheduling of a pod's runtime."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.control.quota.resources import amounts
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage.storage import Storage

from .tolerations import merged
from .writes import PODS, refused, spec_of

_CLASSES: Final = "runtimeclasses.node.k8s.io"
_DIFFERENT: Final = (
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
)
_WITHOUT_CLASS: Final = (
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
)


class RuntimeClass(Plugin):
    """Gives a pod the overhead of its runtime class, and the nodes that have it."""

    name: ClassVar = "RuntimeClass"
    targets: ClassVar = PODS
    mutates: ClassVar = frozenset((Operation.CREATE,))
    validates: ClassVar = frozenset((Operation.CREATE,))

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def mutate(self, write: Write) -> None:
        """Fill in the overhead, the node selector and the tolerations."""
        found, spec = self._class(write), spec_of(write)
        if (fixed := _overhead(found)) is not None:
            if "overhead" in spec and amounts(spec["overhead"]) != amounts(fixed):
                raise refused(write, _DIFFERENT)
            spec["overhead"] = dict(fixed)
        if scheduling := found.get("scheduling"):
            _restrict(write, spec, scheduling)

    def validate(self, write: Write) -> None:
        """Raise Refusal unless the overhead is that of the class."""
        fixed, given = _overhead(self._class(write)), spec_of(write).get("overhead")
        if fixed is None and given is not None:
            raise refused(write, _WITHOUT_CLASS)
        if fixed is not None and amounts(fixed) != amounts(given):
            raise refused(write, _DIFFERENT)

    def _class(self, write: Write) -> JSON:
        """Return the class of a pod, {} for a pod without one; raises Refusal."""
        name = spec_of(write).get("runtimeClassName")
        if name is None:
            return {}
        stored = self._storage.collection(_CLASSES).get(("", name))
        if stored is None:
            why = f'pod rejected: RuntimeClass "{name}" not found'
            raise refused(write, why)
        return stored.obj


def _overhead(runtime_class: JSON) -> JSON | None:
    """Return the overhead that a class defines, `None` if it defines none."""
    overhead = runtime_class.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}


def _restrict(write: Write, spec: JSON, scheduling: JSON) -> None:
    """Restrict a pod to the nodes of its class."""
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            where = "nodeSelector"
            raise refused(
                write,
                f"conflict: runtimeClass.scheduling.{where}[{key}] = {value}; "
                f"pod.spec.{where}[{key}] = {selector[key]}",
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    given = spec.get("tolerations") or []
    if tolerations := merged(given, scheduling.get("tolerations") or []):
        spec["tolerations"] = tolerations
