"""The admission plugin Priority: the priority of a new pod, and the default class."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.scheduling.priorityclass import (
    LOWER_PRIORITY,
    find_priority_class,
)
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage.storage import Storage

from .writes import concerns, object_of, refused, spec_of

_GROUP: Final = "scheduling.k8s.io"
_CLASSES: Final = "priorityclasses"
_COMPUTED: Final = "from the given PriorityClass name"
_CONTROLLER: Final = (
    "must not be provided in pod spec; priority admission controller computed"
)


class Priority(Plugin):
    """Gives a pod the priority of its class; there is one default class at most."""

    name: ClassVar = "Priority"
    targets: ClassVar = frozenset(
        (
            ("", "pods", ""),
            (_GROUP, _CLASSES, ""),
        )
    )
    covers_own_writes: ClassVar = True
    mutates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))
    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def mutate(self, write: Write) -> None:
        """Fill in a pod's priority; an update keeps it. Raises Refusal."""
        if not concerns(write, "", "pods"):
            return
        if write.operation is Operation.CREATE:
            self._set_priority(write)
        elif write.old is not None:
            for name in ("priority", "preemptionPolicy"):
                if name in write.old["spec"]:
                    spec_of(write).setdefault(name, write.old["spec"][name])

    def validate(self, write: Write) -> None:
        """Raise Refusal if a second class would be the default class."""
        if not concerns(write, _GROUP, _CLASSES):
            return
        found = object_of(write)
        default = find_priority_class(self._storage, "")
        if default is None or not found.get("globalDefault"):
            return
        name = default["metadata"]["name"]
        is_new = write.operation is Operation.CREATE
        if is_new or name != found["metadata"]["name"]:
            why = "is already marked as default. Only one default can exist"
            raise refused(write, f"PriorityClass {name} {why}")

    def _set_priority(self, write: Write) -> None:
        spec = spec_of(write)
        name = spec.get("priorityClassName", "")
        found = find_priority_class(self._storage, name)
        if found is None and name:
            raise refused(write, f"no PriorityClass with name {name} was found")
        if found is None:
            found = {"value": 0, "preemptionPolicy": LOWER_PRIORITY}
        elif not name:
            spec["priorityClassName"] = found["metadata"]["name"]
        value, policy = found["value"], found["preemptionPolicy"]
        if spec.get("priority", value) != value:
            given = f"the integer value of priority ({spec['priority']}) "
            raise refused(write, f"{given}{_CONTROLLER} {value} {_COMPUTED}")
        if spec.get("preemptionPolicy", policy) != policy:
            given = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) "
            )
            raise refused(write, f"{given}{_CONTROLLER} {policy} {_COMPUTED}")
        spec |= {"priority": value, "preemptionPolicy": policy}
