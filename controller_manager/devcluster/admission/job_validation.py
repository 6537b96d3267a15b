"""The admission plugin JobValidation: the number of pods of a gang does not change."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.scheduling_group import GENERIC_WORKLOAD
from controller_manager.devcluster.server.rest.admission import (
    Operation,
    Plugin,
    Target,
    Write,
)
from controller_manager.devcluster.server.storage.storage import Storage
from controller_manager.options.gates import FeatureGates

from .writes import object_of, refused

_JOBS: Final[frozenset[Target]] = frozenset((("batch", "jobs", ""),))
_GROUPS: Final = "podgroups.scheduling.k8s.io"


class JobValidation(Plugin):
    """Refuses a new parallelism of a job whose group of pods is a gang.

    Upstream: plugin/pkg/admission/job.
    """

    name: ClassVar = "JobValidation"
    targets: ClassVar = _JOBS
    covers_own_writes: ClassVar = True
    validates: ClassVar = frozenset((Operation.UPDATE,))

    def __init__(self, storage: Storage, features: FeatureGates) -> None:
        self._storage = storage
        self._is_on = features.is_enabled(GENERIC_WORKLOAD)

    def acts(self) -> bool:
        """Tell whether there are groups of pods."""
        return self._is_on

    def validate(self, write: Write) -> None:
        """Raise Refusal if the parallelism of a gang changes."""
        old, new = write.old, object_of(write)
        if old is None or _parallelism(old) == _parallelism(new):
            return
        for group in self._groups_of(old):
            if "gang" in group["spec"]["schedulingPolicy"]:
                name = group["metadata"]["name"]
                why = (
                    "cannot change parallelism for a Job referencing gang-scheduled "
                    f'PodGroup "{name}"'
                )
                raise refused(write, why)

    def _groups_of(self, job: JSON) -> list[JSON]:
        """Return the group that the template names, or else those of the job."""
        groups = self._storage.collection(_GROUPS)
        metadata = job["metadata"]
        namespace = metadata["namespace"]
        named = job["spec"]["template"]["spec"].get("schedulingGroup") or {}
        if (name := named.get("podGroupName")) is not None:
            stored = groups.get((namespace, name))
            return [] if stored is None else [stored.obj]
        return [
            each.obj
            for each in groups
            if each.obj["metadata"]["namespace"] == namespace
            and _is_controlled_by(each.obj, metadata["uid"])
        ]


def _parallelism(job: JSON) -> int | None:
    found: int | None = job["spec"].get("parallelism")
    return found


def _is_controlled_by(obj: JSON, uid: str) -> bool:
    return any(
        each.get("controller") and each["uid"] == uid
        for each in obj["metadata"].get("ownerReferences") or ()
    )
