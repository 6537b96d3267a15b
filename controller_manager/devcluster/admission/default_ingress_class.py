"""The admission plugin DefaultIngressClass."""

from typing import ClassVar, Final

from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage.storage import Storage

from .writes import annotations_of, object_of, refused, spec_of

_GROUP: Final = "networking.k8s.io"
_CLASSES: Final = "ingressclasses.networking.k8s.io"
_CLASS: Final = "kubernetes.io/ingress.class"
_IS_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"


class DefaultIngressClass(Plugin):
    """Gives the default class to an ingress that names no class."""

    name: ClassVar = "DefaultIngressClass"
    targets: ClassVar = frozenset(((_GROUP, "ingresses", ""),))
    mutates: ClassVar = frozenset((Operation.CREATE,))

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def mutate(self, write: Write) -> None:
        """Fill in the class; raises Refusal if there are two default classes."""
        annotations, spec = annotations_of(object_of(write)), spec_of(write)
        if spec.get("ingressClassName") is not None or _CLASS in annotations:
            return
        defaults = [
            stored.obj["metadata"]["name"]
            for stored in self._storage.collection(_CLASSES)
            if annotations_of(stored.obj).get(_IS_DEFAULT) == "true"
        ]
        if len(defaults) > 1:
            found = f"{len(defaults)} default IngressClasses were found"
            raise refused(write, f"Internal error occurred: {found}, only 1 allowed")
        if defaults:
            spec["ingressClassName"] = defaults[0]
