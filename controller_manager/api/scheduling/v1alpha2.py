"""scheduling.k8s.io/v1alpha2: workloads, and groups of pods."""

from msgspec import Raw
from msgspec.structs import force_setattr

from controller_manager.api.meta import APIStruct, CompleteObject, Projection, Resource


class PodGroup(CompleteObject, frozen=True):
    """Pods that are scheduled together; pods name their group.

    Controllers carry the spec and the status as bytes. `PodGroupSpec` has the fields of
    the spec that controllers read.
    """

    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        force_setattr(self, "spec", self.spec.copy())
        force_setattr(self, "status", self.status.copy())


class WorkloadReference(APIStruct, frozen=True):
    """The template of a workload from which a group was made."""

    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateReference(APIStruct, frozen=True):
    """The origin of a group; a workload is the only one so far."""

    workload: WorkloadReference | None = None


class PodGroupSpec(APIStruct, frozen=True):
    """The only field that controllers read of the spec of a group."""

    pod_group_template_ref: PodGroupTemplateReference | None = None


class TypedLocalObjectReference(APIStruct, frozen=True):
    """An object of the same namespace, in any group."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class BasicSchedulingPolicy(APIStruct, frozen=True):
    """The pods of a group are scheduled one by one; it has no fields."""


class GangSchedulingPolicy(APIStruct, frozen=True):
    """No pod of a group is scheduled before `min_count` of them can be."""

    min_count: int = 0


class PodGroupSchedulingPolicy(APIStruct, frozen=True):
    """The way to schedule the pods of a group: one of two fields is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class PodGroupTemplate(APIStruct, frozen=True):
    """The fields of a template for groups that controllers read."""

    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()


class WorkloadSpec(APIStruct, frozen=True):
    """The object that a workload is about, and the templates for its groups."""

    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] | None = None


class Workload(Projection, frozen=True):
    """The groups of pods that belong together, such as those of a job."""

    spec: WorkloadSpec = WorkloadSpec()


POD_GROUPS: Resource[PodGroup] = Resource(
    "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", PodGroup
)

WORKLOADS: Resource[Workload] = Resource(
    "scheduling.k8s.io", "v1alpha2", "workloads", "Workload", Workload
)
